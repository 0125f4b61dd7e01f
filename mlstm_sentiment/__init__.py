"""Sentiment of texts by a multiplicative LSTM: labels, features, heatmaps, generated text.

Every name is imported on first use. The library needs no torch, and scikit-learn or pandas only
where their own objects come in or go out.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import installed_version

if TYPE_CHECKING:
    __version__: str
    from .engine.engine import Engine
    from .engine.featurizer import SentimentFeaturizer
    from .engine.request import Clamp
    from .engine.sampling import SamplingConfig, continue_text
    from .errors import InputError
    from .head.head import Head
    from .head.head_files import save_head
    from .head.sentiment_classifier import SentimentClassifier
    from .pages.heatmap import heatmap
    from .reading.inputs import TableOptions
    from .reading.source import Shard, Source
    from .rows.classified_rows import classify
    from .rows.sink import Sink
    from .units.unit_traces import UnitTrace, UnitTraces, read_texts

__all__ = [
    "Clamp",
    "Engine",
    "Head",
    "InputError",
    "SamplingConfig",
    "SentimentClassifier",
    "SentimentFeaturizer",
    "Shard",
    "Sink",
    "Source",
    "TableOptions",
    "UnitTrace",
    "UnitTraces",
    "classify",
    "continue_text",
    "heatmap",
    "read_texts",
    "save_head",
]

_MODULES = {
    "InputError": "errors",
    "Head": "head.head",
    "save_head": "head.head_files",
    "SentimentClassifier": "head.sentiment_classifier",
    "SentimentFeaturizer": "engine.featurizer",
    "classify": "rows.classified_rows",
    "Source": "reading.source",
    "Shard": "reading.source",
    "TableOptions": "reading.inputs",
    "Sink": "rows.sink",
    "Engine": "engine.engine",
    "Clamp": "engine.request",
    "SamplingConfig": "engine.sampling",
    "continue_text": "engine.sampling",
    "UnitTrace": "units.unit_traces",
    "UnitTraces": "units.unit_traces",
    "read_texts": "units.unit_traces",
    "heatmap": "pages.heatmap",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return installed_version()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
