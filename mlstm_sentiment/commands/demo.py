"""Write the model itself into one web page, which colours and continues what you type.

mlstm-sentiment demo --output page.html
mlstm-sentiment demo --model runs/tour --neuron 7 --output page.html
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..files.writer import write_content
from .options import ClassifierFolder, ModelOptions
from .program import prepare_output, say

if TYPE_CHECKING:
    from ..engine.interface import TextModel
    from ..head.head import Head


@dataclass(frozen=True, kw_only=True)
class PageOptions(ModelOptions):
    """The model that a page shows."""

    classifier: ClassifierFolder = None
    neuron: int | None = None
    """The unit that the page shows first. Default: the one that the model's classifier relies on
    most, or without a classifier the one that varies most."""
    title: str = "The sentiment neuron"
    """The page's heading."""

    def load(self) -> "tuple[TextModel, Head | None]":
        from ..head.head_files import load_classifier

        loaded = self.load_model()
        return loaded, load_classifier(loaded, self.classifier)


@dataclass(frozen=True, kw_only=True)
class Options(PageOptions):
    """Write the model itself into one web page, which colours and continues what you type."""

    output: Path
    """The page, one file that needs neither a network nor a server."""


def run(options: Options) -> None:
    from ..demo import demo_page

    prepare_output(options.output, kind="a demo page")
    loaded, classifier = options.load()
    page = demo_page(loaded, classifier, options.title, unit=options.neuron)
    write_content(options.output, page, "a demo page")
    say(f"{options.output}: {options.output.stat().st_size / 1e6:.1f} MB; open it in a browser")
