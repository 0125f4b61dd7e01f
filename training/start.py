"""The model from whose weights a run begins; only runs that have one import this."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mlstm_sentiment.engine.stored import ModelFolder, open_model
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.tokenizers import check_same_tokenizer
from mlstm_sentiment.text.tokenizer import BYTES, Tokenizer
from model.inference.weights import stored_tensors
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel

# What is kept of its provenance.
_ORIGIN_FIELDS = ("step", "characters", "corpus", "git_revision", "date", "began_from")


@dataclass(frozen=True)
class StartModel:
    """The folder of train.start_from, which fits the run."""

    name: str
    stored: ModelFolder

    @classmethod
    def open(
        cls, name: str, config: ModelConfig, text_profile: str, tokenizer: Tokenizer = BYTES
    ) -> Self:
        """Find the model; InputError unless it has this architecture, profile and tokenizer."""
        stored = open_model(name)
        check_same_tokenizer("the corpus", tokenizer, stored.tokenizer, f"that of {name}")
        mine, theirs = config.architecture(), stored.architecture.architecture()
        # The bias is added only to initial weights, so trained ones fit any value.
        different = [
            f"model.{key} {value}"
            for key, value in theirs.items()
            if mine.get(key) != value and key != "forget_gate_bias"
        ]
        if different:
            settings = ", ".join(different)
            raise InputError(f"train.start_from {name}: was trained with {settings}; set the same")
        if stored.profile.name != text_profile:
            raise InputError(
                f"train.start_from {name}: has text profile {stored.profile.name!r}, but the "
                f"corpus has {text_profile!r}; prepare it with --text-profile {stored.profile.name}"
            )
        return cls(name, stored)

    def load_into(self, model: LanguageModel) -> dict[str, Any]:
        """Copy its weights into a model of the same architecture; return their origin."""
        model.load_state_dict(stored_tensors(self.stored, model.state_dict()))
        provenance = self.stored.provenance
        origin = {key: provenance[key] for key in _ORIGIN_FIELDS if key in provenance}
        return {"model": Path(self.name).name, **origin}
