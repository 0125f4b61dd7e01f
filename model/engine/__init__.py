"""The inference engine: texts through a multiplicative LSTM, without torch.

engine = Engine.load("default")
reading = engine.read(["I love it, it works perfectly."], bits=True)
reading.mean  # float32 [1, 1024]
"""

from .engine import Engine
from .interface import Reading, TextModel
from .request import Clamp, Familiarity, State

__all__ = ["Clamp", "Engine", "Familiarity", "Reading", "State", "TextModel"]
