"""The byte-level multiplicative LSTM: bytes to states to logits, and texts to features.

`SentimentFeaturizer` needs scikit-learn and is imported when it is asked for.
"""

from typing import TYPE_CHECKING, Any

from .errors import InputError
from .language_model import LanguageModel, ModelConfig, build_model
from .state import State
from .weights import LoadedModel, load_model, save_model

if TYPE_CHECKING:
    from .featurizer import SentimentFeaturizer

__all__ = [
    "InputError",
    "LanguageModel",
    "LoadedModel",
    "ModelConfig",
    "SentimentFeaturizer",
    "State",
    "build_model",
    "load_model",
    "save_model",
]


def __getattr__(name: str) -> Any:
    if name == "SentimentFeaturizer":
        from .featurizer import SentimentFeaturizer

        return SentimentFeaturizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
