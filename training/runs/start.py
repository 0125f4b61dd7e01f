"""The initial weights of a run that starts from another model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data_utils.corpus import Corpus
from model.errors import InputError
from model.files.tokenizers import check_same_tokenizer
from model.files.weights import load_model
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel
from model.text.tokenizer import BYTES, Tokenizer

from ..trainer import Trainer

# What a model's provenance tells of the weights it began from.
TOLD = ("step", "characters", "corpus", "git_revision", "date", "began_from")


def begin(trainer: Trainer, start_from: str | None, corpus: Corpus) -> None:
    """Give a new run's trainer the weights of the model `start_from`, if any, and note it."""
    trainer.progress.began_from = load_weights(
        trainer.model, start_from, corpus.text_profile, corpus.tokenizer
    )


def load_weights(
    model: LanguageModel, start_from: str | None, text_profile: str, tokenizer: Tokenizer = BYTES
) -> dict[str, Any] | None:
    """Load the weights of the model `start_from`, if given, into `model`; return their origin.

    text_profile, tokenizer: the corpus's. Raises InputError if `start_from` has others, or another
    architecture.
    """
    if start_from is None:
        return None
    loaded = load_model(start_from, device="cpu")
    check_same_tokenizer("the corpus", tokenizer, loaded.tokenizer, f"that of {start_from}")
    _check_same_architecture(model.config, loaded.model.config, start_from)
    if loaded.profile.name != text_profile:
        raise InputError(
            f"train.start_from {start_from}: reads text as {loaded.profile.name!r}, the corpus has "
            f"{text_profile!r}; prepare it with --text-profile {loaded.profile.name}"
        )
    model.load_state_dict(loaded.model.state_dict())
    return _origin(start_from, loaded.provenance)


def _origin(start_from: str, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name of a model, without its folders, and what its provenance tells."""
    return {"model": Path(start_from).name, **{k: provenance[k] for k in TOLD if k in provenance}}


def _check_same_architecture(wanted: ModelConfig, given: ModelConfig, start_from: str) -> None:
    mine, theirs = wanted.architecture(), given.architecture()
    # The bias is added only to initial weights, so trained ones fit any value.
    different = [
        f"model.{key} {value}"
        for key, value in theirs.items()
        if mine.get(key) != value and key != "forget_gate_bias"
    ]
    if different:
        settings = ", ".join(different)
        raise InputError(f"train.start_from {start_from}: was made with {settings}; set the same")
