"""Reads heads of formats 1 to 7 as the steps of today; their tensors decide the sizes.

1: a regression between two classes; 2: between more; 3: fine-tuned heads; 4: a regression on pooled
states; 5: one to five stars; 6: such a head with n-grams; 7: such a head that answers neutral.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files.tensors import as_floats, read_arrays
from .head import THRESHOLD
from .steps import (
    STAR_WEIGHTS,
    STEPS,
    Affine,
    Calibration,
    Neutral,
    Ngrams,
    OneVsRest,
    Sigmoid,
    Step,
    star_steps,
    tuned_steps,
)

NGRAMS_FILE = "ngrams.safetensors"
_TUNED, _STARS = 3, (5, 6, 7)  # format versions
_THREE_STARS = 2  # their place among the stars


def converted(
    folder: Path, weights: Path, content: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Step, ...]]:
    """Return what today's `classifier.json` would say of the head in a folder, and its steps.

    weights: its tensors. content: of its `classifier.json`. Raises InputError if it is damaged.
    """
    arrays = {name: as_floats(weights, name, array) for name, array in read_arrays(weights).items()}
    try:
        several_labels, thresholds, steps = _parts(folder, arrays, content)
    except KeyError as error:
        raise InputError(f"{error} is missing, or unknown") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"it is damaged ({error})") from error
    pooling = content.get("pooling", ["last"])
    optional = ("unsure", "familiarity", "neuron")
    return {
        "classes": content["classes"],
        "several_labels": several_labels,
        "features": {"state": content.get("state", "cell"), "pooling": pooling},
        "steps": [],
        "thresholds": thresholds,
        "model_digest": content.get("model_digest"),
        **{name: content.get(name) for name in optional},
    }, steps


def _parts(
    folder: Path, arrays: Mapping[str, np.ndarray], content: Mapping[str, Any]
) -> tuple[bool, list[float], tuple[Step, ...]]:
    """Return whether a text may have several labels, the thresholds, and the steps."""
    version, classes = content["format_version"], content["classes"]
    if version == _TUNED:
        exclusive = {True: True, False: False}[content["exclusive"]]
        steps = tuned_steps(arrays, len(classes), exclusive=exclusive)
        return not exclusive, content["thresholds"], steps
    if version in _STARS:
        ngrams, middle = None, content.get("neutral")
        if "ngrams" in content:
            weights = read_arrays(folder / NGRAMS_FILE)["weights"]
            ngrams = Ngrams(weights, content["ngrams"]["scale"], STAR_WEIGHTS)
        neutral = None if middle is None else Neutral(_THREE_STARS, **middle)
        calibration = Calibration(**content["calibration"])
        return False, [content["threshold"]], star_steps(arrays, calibration, ngrams, neutral)
    affine = Affine(np.atleast_2d(arrays["coefficients"]), arrays["intercept"])
    if len(classes) == 2:
        return False, [content.get("threshold", THRESHOLD)], (affine, Sigmoid())
    return False, [], (affine, STEPS[content.get("link", OneVsRest.NAME)]())
