"""A network as the commands of the laboratory load it."""

from pathlib import Path

from model.inference.weights import LoadedModel
from model.layers.language_model import LanguageModel
from model.text.profiles import text_profile
from model.text.tokenizer import BYTES, Tokenizer


def as_loaded(model: LanguageModel, tokenizer: Tokenizer = BYTES) -> LoadedModel:
    """Return a model with a text profile."""
    return LoadedModel(model, text_profile("openai"), Path("model"), tokenizer=tokenizer)
