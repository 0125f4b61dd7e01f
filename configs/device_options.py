"""The options of scripts that process texts with a model, on any device and of any cell."""

from dataclasses import dataclass
from types import ModuleType

from mlstm_sentiment.commands.command_line import call
from mlstm_sentiment.commands.options import ModelOptions
from mlstm_sentiment.engine.interface import TextModel
from model.inference.loading import Device, Precision, load_text_model

from .command import run


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(ModelOptions):
    """The model of a command, on any device and of any cell; the first base of a script's options.

    class Options(DeviceOptions, evaluate.Options): ...
    """

    device: Device = "auto"
    precision: Precision = "exact"  # type: ignore[assignment]  # a script knows more of them

    def load_model(self, name: str | None = None) -> TextModel:
        """Load the model, or another one by its name or folder."""
        return load_text_model(
            name or self.model,
            device=self.device,
            precision=self.precision,
            threads=self.threads,
        )


def run_on_any_device(library: ModuleType, doc: str | None) -> None:
    """Run a command of the library as a script, with these options too.

    library: its module. doc: the script's docstring.

        run_on_any_device(classify, __doc__)
    """
    bases, about = (DeviceOptions, library.Options), {"__doc__": library.Options.__doc__}
    options: type = dataclass(frozen=True, kw_only=True)(type("Options", bases, about))
    run(lambda: call(options, library.run, doc))
