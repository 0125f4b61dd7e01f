"""The model in a web page: one file with weights and arithmetic, without server or network."""

from .page import demo_page, write_demo

__all__ = ["demo_page", "write_demo"]
