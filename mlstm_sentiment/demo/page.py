"""Fills the page's template with style, programs and the model, as base64: one file."""

import ctypes
import html
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..engine import library
from ..engine.compiled_model import fields_of
from ..engine.interface import TextModel
from ..engine.stored import open_model, read_weights
from ..errors import InputError
from ..files.shipped import model_name
from ..files.tensors import check_finite
from ..head.head import Head
from ..head.head_files import parts_of
from ..head.sentiment_classifier import SHORTEST
from ..pages.page import content_digest, fill, page_style, script_safe
from ..reading.no_answer import NO_TEXT, placeholders
from ..text.markup import BLOCK_TAG, INLINE_TAG, MARKED_UP
from ..text.subwords import SubwordTokenizer
from ..text.tokenizer import BYTES

_MULTIPLE = 16  # bytes: where JavaScript may view numbers of any size
_Put = Callable[[np.ndarray | None], int | None]
_KINDS = {ctypes.c_int64: "int64", ctypes.c_float: "float", ctypes.c_double: "double"}


def _append(data: bytearray, array: np.ndarray | None) -> int | None:
    """Append an array; return the byte at which it begins, or None for none."""
    if array is None:
        return None
    place = len(data)
    data += array.tobytes()
    data += bytes(-len(data) % _MULTIPLE)
    return place


def _fields(structure: type[ctypes.Structure]) -> dict[str, Any]:
    """Return the fields of a structure of engine.h, in order: each one's name and kind."""
    fields: Sequence[tuple[str, Any]] = structure._fields_  # type: ignore[assignment]
    return {
        name: _fields(kind) if issubclass(kind, ctypes.Structure) else _KINDS.get(kind, "pointer")
        for name, kind in fields
    }


FOLDER = Path(__file__).parent
_TITLE = "The sentiment neuron"
_STRUCTURES = (library.StoredLayer, library.StoredModel, library.Job)
_WORKER = ("ngrams.js", "subwords.js", "answer.js", "engine.js", "worker.js")
_PROFILES = {"openai": True, "raw": False}  # the profiles of encoding.js, and whether they clean
# The steps of a head that engine.js computes.
STEPS = {
    *("standardize", "affine", "prelu", "probabilities", "ngrams", "language", "stars", "neutral"),
    *("positive", "calibration", "learned", "correction", "log_odds", "sigmoid"),
}
# How the page leaves out HTML tags, as `without_tags` does.
_TAGS = {"marked_up": MARKED_UP.pattern, "block": BLOCK_TAG.pattern, "inline": INLINE_TAG.pattern}
_EXAMPLES = (
    "I loved it. Warm, funny, and over too soon.",
    "It broke after two days. A waste of money.",
    "It started well, but the ending was a terrible let-down.",
    "I expected little, and was delighted by all of it.",
)


def demo_page(
    loaded: TextModel, classifier: Head | None, title: str = _TITLE, *, unit: int | None = None
) -> str:
    """Return a page in which the model reads and writes texts.

    classifier: gives the probability and says what a high value of the unit means; without one the
    page shows neither. unit: the one to show first; by default the one that the classifier relies
    on most, or without a classifier the one that varies most. Raises InputError for a model that
    the page cannot compute.
    """
    check_computable(loaded)
    head = classifier if classifier is not None and classifier.is_binary else None
    if unknown := {step.NAME for step in (head.steps if head else ())} - STEPS:
        raise InputError(f"the page cannot compute {min(unknown)}, a step of the classifier")
    weights = bytearray()
    put = partial(_append, weights)
    stored = read_weights(open_model(loaded.folder))
    data = {
        "model": fields_of(stored, put, 1 if loaded.precision == "fast" else 2, "plain"),
        "model_bytes": len(weights),
        "structures": {each.__name__: _fields(each) for each in _STRUCTURES},
        **_description(loaded, head, unit, put),
    }
    script = "\n".join(_program(name) for name in ("encoding.js", "answer.js", "page.js"))
    style = page_style()
    # Both may have bytes of another encoding: the title, and the model's name.
    title, about = (
        html.escape(text.encode("utf-8", errors="replace").decode())
        for text in (title, _about(loaded, classifier, head))
    )
    content = {
        "title": title,
        "about": about,
        "style": style,
        "style_digest": content_digest(style),
        "script": script,
        "script_digest": content_digest(script),
        "worker": "\n".join(_program(name) for name in _WORKER),
        "module": b64encode((FOLDER / "engine.wasm").read_bytes()).decode(),
        "data": script_safe(data),
        "weights": b64encode(weights).decode(),
    }
    return fill(_program("page.html"), content)


def check_computable(loaded: TextModel) -> None:
    """Raise InputError unless the page can compute what the model computes."""
    if (cell := loaded.architecture.cell) != "mlstm":
        raise InputError(f"{loaded.folder}: its cell is {cell}; the page computes mlstm only")
    if loaded.profile.name not in _PROFILES:
        raise InputError(
            f"{loaded.folder}: its text profile is {loaded.profile.name}; the page knows "
            f"{', '.join(_PROFILES)}"
        )


def _description(
    loaded: TextModel, head: Head | None, unit: int | None, put: _Put
) -> dict[str, Any]:
    architecture, profile, tokenizer = loaded.architecture, loaded.profile, loaded.tokenizer
    ranges = _ranges(loaded)
    if unit is None:
        unit = head.neuron if head else int(ranges.argmax())
    architecture.check_unit(unit, -1)
    return {
        "units": architecture.hidden_size,
        "layers": architecture.layers,
        "symbols": architecture.resolved_vocabulary_size,
        "unit": unit,
        "limits": [float(f"{limit:.3g}") for limit in ranges.tolist()],
        "vocabulary": tokenizer.pieces() if isinstance(tokenizer, SubwordTokenizer) else None,
        "head": head and _head(head, put),
        "profile": {
            "prefix": profile.prefix,
            "suffix": profile.suffix,
            "clean": _PROFILES[profile.name],
        },
        "tags": _TAGS,
        "placeholders": {"no_text": NO_TEXT, "cells": placeholders()},
        "examples": _EXAMPLES,
    }


def _head(head: Head, put: _Put) -> dict[str, Any]:
    _, description = parts_of(head)
    steps = [
        {
            **described,
            "arrays": {
                name: {"place": put(array), "size": array.size}
                for name, array in step.arrays().items()
            },
        }
        for described, step in zip(description["steps"], head.steps, strict=True)
    ]
    return {
        **description,
        "steps": steps,
        "threshold": head.threshold,
        "unsure": head.unsure,
        "shortest": SHORTEST,
        "familiarity": head.familiarity and asdict(head.familiarity),
    }


def _ranges(loaded: TextModel) -> np.ndarray:
    """Return the largest absolute value of each unit over the examples: float32 [H], above zero."""
    reading = loaded.read(_EXAMPLES, ("max", "min"), state="cell")
    values = np.abs(reading.features(("max", "min"))).reshape(len(_EXAMPLES), 2, -1)
    check_finite(loaded.folder, {"a unit": values})
    ranges: np.ndarray = values.max(axis=(0, 1)).clip(min=1e-3)
    return ranges


def _about(loaded: TextModel, classifier: Head | None, head: Head | None) -> str:
    name = model_name(loaded.folder)
    reads = "byte by byte" if loaded.tokenizer.kind == BYTES.kind else "in subword tokens"
    units = f"{loaded.architecture.hidden_size:,} units"
    text = f"The model, {name}, is a multiplicative LSTM of {units} that reads text {reads}."
    if classifier is None:
        text += " It has no classifier, so the page shows units, and no probability."
    elif head is None:
        text += (
            f" Its classifier does not have two classes ({', '.join(classifier.classes)}), so the "
            "page shows units, and no probability."
        )
    return text


def _program(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
