"""The byte-level multiplicative LSTM: bytes to states to logits, and texts to features.

Every name is imported on first use: reading text needs no torch, and only `SentimentFeaturizer`
needs scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import installed_version

if TYPE_CHECKING:
    __version__: str
    from .classifiers.classified_rows import classify
    from .classifiers.head import Head
    from .classifiers.head_files import save_head
    from .classifiers.sentiment_classifier import SentimentClassifier
    from .engine.featurizer import SentimentFeaturizer
    from .engine.request import Clamp
    from .engine.sampling import SamplingConfig, continue_text
    from .errors import InputError
    from .inference.weights import LoadedModel, load_model, save_model
    from .layers.config import ModelConfig
    from .layers.language_model import LanguageModel, build_model
    from .pages.heatmap import heatmap
    from .reading.inputs import TableOptions
    from .reading.sink import Sink
    from .reading.source import Shard, Source
    from .state import State
    from .units.unit_traces import UnitTrace, UnitTraces, read_texts

__all__ = [
    "Clamp",
    "Head",
    "InputError",
    "LanguageModel",
    "LoadedModel",
    "ModelConfig",
    "SamplingConfig",
    "SentimentClassifier",
    "SentimentFeaturizer",
    "Shard",
    "Sink",
    "Source",
    "State",
    "TableOptions",
    "UnitTrace",
    "UnitTraces",
    "build_model",
    "classify",
    "continue_text",
    "heatmap",
    "load_model",
    "read_texts",
    "save_head",
    "save_model",
]

_MODULES = {
    "InputError": "errors",
    "Head": "classifiers.head",
    "save_head": "classifiers.head_files",
    "SentimentClassifier": "classifiers.sentiment_classifier",
    "SentimentFeaturizer": "inference.featurizer",
    "classify": "classifiers.classified_rows",
    "Source": "reading.source",
    "Shard": "reading.source",
    "TableOptions": "reading.inputs",
    "Sink": "reading.sink",
    "LanguageModel": "layers.language_model",
    "ModelConfig": "layers.config",
    "build_model": "layers.language_model",
    "State": "state",
    "Clamp": "inference.sampling",
    "SamplingConfig": "inference.sampling",
    "continue_text": "inference.sampling",
    "UnitTrace": "units.unit_traces",
    "UnitTraces": "units.unit_traces",
    "read_texts": "units.unit_traces",
    "LoadedModel": "files.weights",
    "heatmap": "pages.heatmap",
    "load_model": "files.weights",
    "save_model": "files.weights",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return installed_version()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
