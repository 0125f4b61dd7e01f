"""One folder for each claim; nothing imports them."""

import configs  # noqa: F401 (it names a package that is not installed)
