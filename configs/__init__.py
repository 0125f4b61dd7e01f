"""How a run is described: one schema that composes the sections owned by each component.

Every command imports this package first, so that a package that is missing is named in one line.
"""

import sys
from importlib.util import find_spec
from types import TracebackType

from model.commands import program
from model.errors import InputError
from training.parallel.launcher import report_failure


def name_missing_package(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """End a command that cannot import an installed package, as bad input does; a sys.excepthook.

    Any other error gets Python's traceback.
    """
    name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    package = name.partition(".")[0]
    if not package or find_spec(package) is not None:
        return sys.__excepthook__(kind, error, traceback)

    def refuse() -> None:
        raise InputError(
            f"the package {package} is not installed: pip install -r requirements.txt (without a "
            "GPU, first install torch as README.md says)"
        )

    program.run(refuse, failed=report_failure)


sys.excepthook = name_missing_package
