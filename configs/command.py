"""What main.py, the scripts and the studies share: the command line of `model`, and ranks."""

from collections.abc import Callable
from dataclasses import dataclass

from model.commands import program
from model.commands.options import ModelOptions
from model.commands.parser import Parser, check_unset, parse, parse_one_of
from model.commands.program import prepare_output, report, say
from model.engine.cores import usable_cores
from model.engine.interface import TextModel
from model.inference.loading import Device, Precision, load_text_model
from model.kernels.process import own_process
from training.parallel.launcher import report_failure

__all__ = [
    "DeviceOptions",
    "check_unset",
    "parse",
    "parse_one_of",
    "prepare_output",
    "report",
    "run",
    "run_plain",
    "say",
]


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(ModelOptions):
    """The model of a command, on any device and of any cell; the first base of a script's options.

    class Options(DeviceOptions, classify.Options): ...
    """

    device: Device = "auto"
    precision: Precision = "exact"  # type: ignore[assignment]  # a script knows more of them

    def load_model(self, name: str | None = None) -> TextModel:
        """Load the model, or another one by its name or folder."""
        return load_text_model(
            name or self.model,
            device=self.device,
            precision=self.precision,
            threads=self.threads or usable_cores(),
        )


def run(command: Callable[[], int | None]) -> None:
    """Run a command as `program.run` does; the launcher learns why it failed.

    Its process is ours: torch's threads follow the quota, and make room for other programs.
    """
    own_process()
    program.run(command, failed=report_failure)


def run_plain(command: Callable[[], int | None], doc: str | None) -> None:
    """Run a command without options: --help prints its docstring; other arguments are refused."""

    def parse_and_run() -> int | None:
        Parser(description=doc).parse_args()
        return command()

    run(parse_and_run)
