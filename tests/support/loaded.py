"""A network as the commands of the laboratory load it."""

from pathlib import Path

from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.tokenizer import BYTES, Tokenizer
from model.inference.weights import LoadedModel
from model.layers.language_model import LanguageModel


def as_loaded(model: LanguageModel, tokenizer: Tokenizer = BYTES) -> LoadedModel:
    """Return a model with a text profile."""
    return LoadedModel(model, text_profile("openai"), Path("model"), tokenizer=tokenizer)
