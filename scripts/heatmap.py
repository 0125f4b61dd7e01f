"""Colour texts by what a unit holds after every character: a page, JSON, or in the terminal.

python scripts/heatmap.py --model runs/tour --text "I loved it, until it broke."
python scripts/heatmap.py --model runs/tour --input texts.csv --top 5 --output heatmap.html
python scripts/heatmap.py --model runs/tour --neuron 7 --neuron 3 --text "I loved it." \\
    --output heatmap.html --output heatmap.json
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import UseAppendAction

import command

from model.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Colour texts by what a unit holds after every character: a page, JSON, or in the terminal."""

    model: str = "default"
    """A model directory, a run directory, or the name of a shipped model."""
    text: Annotated[tuple[str, ...], UseAppendAction] = ()
    """A text; may be given several times. One that begins with a dash: --text=-5."""
    input: Path | None = None
    """More texts: CSV, TSV, JSON lines, Parquet or text (one a line), also compressed; rows without
    text are left out."""
    text_key: str | None = None
    """Key of the text; absent, the first present of text, sentence, reviewText, review."""
    neuron: Annotated[tuple[int, ...], UseAppendAction] = ()
    """A unit; may be given several times. Absent, unless there is --top, the unit with the
    largest weight in the model's classifier."""
    top: int = 0
    """So many units more: those that vary most over the texts."""
    state: Literal["cell", "hidden"] = "cell"
    """Which half of the unit's state."""
    layer: int = -1
    """Of the stack, from 0; -1 is the last."""
    output: Annotated[tuple[Path, ...], UseAppendAction] = ()
    """A file to write, .html or .json; may be given several times. Absent, colours in the
    terminal."""
    ansi: bool = False
    """Colours in the terminal as well as the files."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the model runs."""


def main() -> None:
    options = command.parse(Options, __doc__)

    import torch

    from model.classifiers.fitted import own_classifier
    from model.files.weights import load_model
    from transfer.neuron.unit_traces import poles_of, read_texts
    from transfer.pages.heatmap import as_ansi, check_outputs, write

    if not options.text and options.input is None:
        raise InputError("give a --text or an --input")
    texts = [*options.text, *texts_of(options.input, options.text_key)]
    check_outputs(options.output, texts)
    command.prepare_output(*options.output)
    loaded = load_model(options.model, compute_dtype=torch.float32, device=options.device)
    classifier = None if options.neuron or options.top else own_classifier(loaded, options.layer)
    readings = read_texts(
        loaded,
        texts,
        options.neuron if classifier is None else [classifier.neuron],
        top=options.top,
        state=options.state,
        layer=options.layer,
        poles=None if classifier is None else poles_of(classifier),
    )
    for path in options.output:
        write(readings, path)
        print(f"{path}: {len(texts)} texts, units {', '.join(map(str, readings.units))}")
    if options.ansi or not options.output:
        print(as_ansi(readings), end="")


def texts_of(path: Path | None, text_key: str | None) -> list[str]:
    """Return the texts of a file but for the blank ones, whose number is said."""
    from data_utils.labelled import read_plain_texts

    if path is None:
        return []
    texts = read_plain_texts(path, text_key)
    shown = [text for text in texts if text.strip()]
    if len(shown) < len(texts):
        logging.info("%s: %d rows without text left out", path, len(texts) - len(shown))
    return shown


if __name__ == "__main__":
    command.run(main)
