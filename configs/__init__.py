"""How a run is described: one schema composed of the components' sections. Every command imports
this package first, so that a missing package is reported in one line.
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
    """A sys.excepthook: report a package that is not installed as bad input is reported. Any other
    error gets Python's traceback.
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
