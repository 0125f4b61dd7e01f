"""What main.py, the scripts and the studies share: the library's command line, and ranks."""

from collections.abc import Callable

from mlstm_sentiment.bounds import check_unset
from mlstm_sentiment.commands import program
from mlstm_sentiment.commands.parser import parse, parse_one_of
from mlstm_sentiment.commands.program import prepare_output, report, say
from model.kernels.cores import own_process
from training.parallel.launcher import report_failure

__all__ = [
    "check_unset",
    "parse",
    "parse_one_of",
    "prepare_output",
    "report",
    "run",
    "say",
]


def run(command: Callable[[], int | None]) -> None:
    """Run a command as `program.run` does; the launcher learns why it failed.

    Its process is ours: torch's threads follow the quota, and make room for other programs.
    """
    own_process()
    program.run(command, failed=report_failure)
