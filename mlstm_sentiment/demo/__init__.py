"""The model in a web page: one file with weights and arithmetic, without server or network."""

from .page import check_computable, demo_page

__all__ = ["check_computable", "demo_page"]
