"""The options of scripts that process texts with a model, on any device and of any cell."""

from dataclasses import dataclass

from mlstm_sentiment.commands.options import ModelOptions
from mlstm_sentiment.engine.cores import usable_cores
from mlstm_sentiment.engine.interface import TextModel
from model.inference.loading import Device, Precision, load_text_model


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
