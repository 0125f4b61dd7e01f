"""The byte-level multiplicative LSTM: bytes to states to logits, and texts to features.

Every name is imported when it is asked for: reading text needs no torch, and only
`SentimentFeaturizer` needs scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import InputError
    from .featurizer import SentimentFeaturizer
    from .language_model import LanguageModel, ModelConfig, build_model
    from .sentiment_classifier import SentimentClassifier
    from .state import State
    from .weights import LoadedModel, load_model, save_model

__all__ = [
    "InputError",
    "LanguageModel",
    "LoadedModel",
    "ModelConfig",
    "SentimentClassifier",
    "SentimentFeaturizer",
    "State",
    "build_model",
    "load_model",
    "save_model",
]

_MODULES = {
    "InputError": "errors",
    "SentimentClassifier": "sentiment_classifier",
    "SentimentFeaturizer": "featurizer",
    "LanguageModel": "language_model",
    "ModelConfig": "language_model",
    "build_model": "language_model",
    "State": "state",
    "LoadedModel": "weights",
    "load_model": "weights",
    "save_model": "weights",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
