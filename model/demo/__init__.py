"""The model in a web page: one file with weights and arithmetic, without server or network."""

from .page import write_demo

__all__ = ["write_demo"]
