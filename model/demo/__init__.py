"""The model itself in one web page: weights, arithmetic and all, without a server or a network."""

from .page import write_demo

__all__ = ["write_demo"]
