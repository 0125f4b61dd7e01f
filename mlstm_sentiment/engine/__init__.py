"""The inference engine: texts through a multiplicative LSTM, without torch.

engine = Engine.load("default")
reading = engine.read(["I love it, it works perfectly."], bits=True)
reading.mean  # float32 [1, 1024]

Every name is imported on first use: training needs some of the modules, and no engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine import Engine
    from .interface import Reading, TextModel
    from .request import Clamp, Familiarity, State

__all__ = ["Clamp", "Engine", "Familiarity", "Reading", "State", "TextModel"]

_MODULES = {
    "Engine": "engine",
    "Reading": "interface",
    "TextModel": "interface",
    "Clamp": "request",
    "Familiarity": "request",
    "State": "request",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
