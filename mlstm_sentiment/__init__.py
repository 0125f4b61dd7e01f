"""Sentiment of texts by a multiplicative LSTM: labels, features, heatmaps, generated text.

Every name is imported on first use. The library needs no torch, and scikit-learn or pandas only
where their own objects come in or go out.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import installed_version

if TYPE_CHECKING:
    __version__: str
    from .engine.engine import Engine as Engine
    from .engine.featurizer import SentimentFeaturizer as SentimentFeaturizer
    from .engine.request import Clamp as Clamp
    from .engine.sampling import SamplingConfig as SamplingConfig
    from .engine.sampling import continue_text as continue_text
    from .errors import InputError as InputError
    from .head.head import Head as Head
    from .head.head_files import save_head as save_head
    from .head.learning import LearnedHead as LearnedHead
    from .head.sentiment_classifier import SentimentClassifier as SentimentClassifier
    from .pages.heatmap import heatmap as heatmap
    from .reading.inputs import TableOptions as TableOptions
    from .reading.source import Shard as Shard
    from .reading.source import Source as Source
    from .rows.classified_rows import classify as classify
    from .rows.sink import Sink as Sink
    from .units.unit_traces import UnitTrace as UnitTrace
    from .units.unit_traces import UnitTraces as UnitTraces
    from .units.unit_traces import read_texts as read_texts

_MODULES = {
    "engine.engine": ["Engine"],
    "engine.featurizer": ["SentimentFeaturizer"],
    "engine.request": ["Clamp"],
    "engine.sampling": ["SamplingConfig", "continue_text"],
    "errors": ["InputError"],
    "head.head": ["Head"],
    "head.head_files": ["save_head"],
    "head.learning": ["LearnedHead"],
    "head.sentiment_classifier": ["SentimentClassifier"],
    "pages.heatmap": ["heatmap"],
    "reading.inputs": ["TableOptions"],
    "reading.source": ["Shard", "Source"],
    "rows.classified_rows": ["classify"],
    "rows.sink": ["Sink"],
    "units.unit_traces": ["UnitTrace", "UnitTraces", "read_texts"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return installed_version()
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
