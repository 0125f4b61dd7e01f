"""Fills the page's template with style, programs and the model, as base64: one file."""

import base64
import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..classifiers.head import Head
from ..classifiers.head_files import parts_of
from ..classifiers.sentiment_classifier import SHORTEST
from ..errors import InputError
from ..files.weights import LoadedModel
from ..files.writer import write_atomically
from ..pages.page import as_utf8, content_digest, fill, page_style
from ..reading.no_answer import NO_TEXT, placeholders
from ..text.markup import BLOCK_TAG, INLINE_TAG, MARKED_UP
from ..text.subwords import SubwordTokenizer
from ..text.tokenizer import BYTES, Tokenizer
from ..units.trace import trace
from .packing import Packed, pack, padded, page_tensors

FOLDER = Path(__file__).parent
_TITLE = "The sentiment neuron"
_WORKER = ("ngrams.js", "subwords.js", "answer.js", "engine.js", "worker.js")
_PROFILES = {"openai": True, "raw": False}  # the profiles of encoding.js, and whether they clean
# The steps of a head that engine.js computes.
STEPS = {
    *("standardize", "affine", "prelu", "probabilities", "ngrams", "stars", "neutral", "positive"),
    *("calibration", "log_odds", "sigmoid"),
}
# How the page leaves out HTML tags, as `without_tags` does.
_TAGS = {"marked_up": MARKED_UP.pattern, "block": BLOCK_TAG.pattern, "inline": INLINE_TAG.pattern}
_EXAMPLES = (
    "I loved it. Warm, funny, and over too soon.",
    "It broke after two days. A waste of money.",
    "It started well, but the ending was a terrible let-down.",
    "I expected little, and was delighted by all of it.",
)


def write_demo(
    loaded: LoadedModel,
    classifier: Head | None,
    path: Path,
    title: str = _TITLE,
    *,
    unit: int | None = None,
) -> None:
    """Write a page in which the model reads and writes texts.

    An error leaves no partial file. classifier: gives the probability and says what a high value of
    the unit means; without one the page shows neither. unit: the one to show first; by default the
    one that the classifier relies on most, or without a classifier the one that varies most. Raises
    InputError for a model that the page cannot compute.
    """
    page = demo_page(loaded, classifier, title, unit=unit)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))


def demo_page(
    loaded: LoadedModel, classifier: Head | None, title: str, *, unit: int | None = None
) -> str:
    """Return the page that `write_demo` writes."""
    check_computable(loaded)
    head = classifier if classifier is not None and classifier.is_binary else None
    if unknown := {step.NAME for step in (head.steps if head else ())} - STEPS:
        raise InputError(f"the page cannot compute {min(unknown)}, a step of the classifier")
    packed = _packed(loaded, head)
    script = "\n".join(_program(name) for name in ("encoding.js", "answer.js", "page.js"))
    style = page_style()
    content = {
        "title": html.escape(as_utf8(title)),
        "about": html.escape(as_utf8(_about(loaded, classifier, head))),
        "style": style,
        "style_digest": content_digest(style),
        "script": script,
        "script_digest": content_digest(script),
        "worker": "\n".join(_program(name) for name in _WORKER),
        "module": _base64((FOLDER / "wasm" / "mlstm.wasm").read_bytes()),
        "weights": _base64(packed.data),
        "data": _script_safe(_description(loaded, head, packed.places, unit)),
    }
    return fill(_program("page.html"), content)


def check_computable(loaded: LoadedModel) -> None:
    """Raise InputError unless the page can compute what the model computes."""
    cell = loaded.model.config.cell
    if cell != "mlstm":
        raise InputError(f"{loaded.folder}: its cell is {cell}; the page computes mlstm only")
    if loaded.profile.name not in _PROFILES:
        raise InputError(
            f"{loaded.folder}: its text profile is {loaded.profile.name}; the page knows "
            f"{', '.join(_PROFILES)}"
        )


def _packed(loaded: LoadedModel, head: Head | None) -> Packed:
    arrays = parts_of(head)[0] if head else {}
    weights = {f"head.{name}": torch.from_numpy(array) for name, array in arrays.items()}
    return pack(page_tensors(loaded.model) | weights)


def _description(
    loaded: LoadedModel, head: Head | None, places: Mapping[str, int], unit: int | None
) -> dict[str, Any]:
    """Return the data that the page's programs need."""
    config, profile = loaded.model.config, loaded.profile
    ranges = _ranges(loaded)
    if unit is None:
        unit = head.neuron if head else int(ranges.argmax())
    config.check_unit(unit, -1)
    return {
        "units": config.hidden_size,
        "padded_units": padded(config.hidden_size),
        "padded_embedding": padded(config.embedding_size),
        "layers": config.layers,
        "symbols": config.resolved_vocabulary_size,
        "unit": unit,
        "limits": [float(f"{limit:.3g}") for limit in ranges.tolist()],
        "vocabulary": _vocabulary(loaded.tokenizer),
        "head": head and _head(head),
        "profile": {
            "prefix": profile.prefix,
            "suffix": profile.suffix,
            "clean": _PROFILES[profile.name],
        },
        "tags": _TAGS,
        "placeholders": {"no_text": NO_TEXT, "cells": placeholders()},
        "examples": _EXAMPLES,
        "places": places,
    }


def _vocabulary(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Return the pieces of a vocabulary as subwords.js reads them; None of bytes."""
    return tokenizer.pieces() if isinstance(tokenizer, SubwordTokenizer) else None


def _head(head: Head) -> dict[str, Any]:
    """Return a head's description, with the sizes of its steps' arrays."""
    _, description = parts_of(head)
    steps = [
        {**described, "sizes": {name: array.size for name, array in step.arrays().items()}}
        for described, step in zip(description["steps"], head.steps, strict=True)
    ]
    return {
        **description,
        "steps": steps,
        "threshold": head.threshold,
        "unsure": head.unsure,
        "shortest": SHORTEST,
    }


def _ranges(loaded: LoadedModel) -> np.ndarray:
    """Return the largest absolute value of each unit over the examples: float32 [H], above zero."""
    values = np.concatenate(trace(loaded.model, [loaded.tokens(text) for text in _EXAMPLES]))
    if not np.isfinite(values).all():
        raise InputError(f"{loaded.folder}: units become NaN or infinite; are its weights damaged?")
    return np.abs(values).max(axis=0).clip(min=1e-3)


def _about(loaded: LoadedModel, classifier: Head | None, head: Head | None) -> str:
    folder = loaded.folder
    name = folder.parent.name if folder.name == "model" else folder.name
    reads = "byte by byte" if loaded.tokenizer.kind == BYTES.kind else "in subword tokens"
    units = f"{loaded.model.config.hidden_size:,} units"
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


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _script_safe(content: Mapping[str, Any]) -> str:
    """Return JSON that is safe inside an HTML element."""
    return json.dumps(content, allow_nan=False).replace("<", "\\u003c")
