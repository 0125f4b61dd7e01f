"""The version of this package, and versions of others whose breach would change a number."""

import re

from .errors import InputError


def installed_version() -> str:
    """Return the installed version; a checkout without an installation has none."""
    from importlib import metadata  # takes longer than all else here

    try:
        return metadata.version("mlstm-sentiment")
    except metadata.PackageNotFoundError:
        return "0+checkout"


def check_version(package: str, least: str, why: str) -> None:
    """Raise InputError if a package is older than a version; why: what would go wrong in silence.

    >>> check_version("numpy", "1.0", "sums would differ")
    """
    from importlib import metadata

    found = metadata.version(package)
    if _numbers(found) < _numbers(least):
        raise InputError(
            f"{package} {found} is installed, but {least} or newer is needed: {why}; run "
            f'pip install "{package}>={least}"'
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading whole numbers of a version: 1.8.0rc1 gives 1, 8, 0."""
    leading = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, leading[0].split("."))) if leading else ()
