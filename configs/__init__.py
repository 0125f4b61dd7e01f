"""How a run is described: one schema composed of the components' sections.

Every command imports this package first and calls `report_import_errors`, so that a missing package
is reported in one line, and Ctrl-C in one word.
"""

import sys
from importlib.util import find_spec
from types import TracebackType

from mlstm_sentiment.commands import program
from mlstm_sentiment.errors import InputError, OutOfMemory
from training.parallel.launcher import report_failure


def report_import_errors() -> None:
    """Let `end_in_one_line` report what ends this process; only our commands call this."""
    sys.excepthook = end_in_one_line


def end_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Report an error of the imports: a missing package in one line, Ctrl-C in one word.

    For sys.excepthook. A missing package, or too little memory, is reported like bad input, and
    Ctrl-C during the imports like a later Ctrl-C. Any other error gets Python's traceback.
    """
    if isinstance(error, KeyboardInterrupt):
        failure: BaseException = error
    elif shortage := OutOfMemory.of(error):
        failure = shortage
    elif package := _missing_package(error):
        failure = InputError(
            f"the package {package} is not installed: pip install -r requirements.txt (without a "
            "GPU, first install torch as README.md says)"
        )
    else:
        return sys.__excepthook__(kind, error, traceback)

    def fail() -> None:
        raise failure

    program.run(fail, failed=report_failure)


def _missing_package(error: BaseException) -> str:
    """Return the name of a package whose absence is the error; else nothing."""
    name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    package = name.partition(".")[0]
    return package if package and find_spec(package) is None else ""
