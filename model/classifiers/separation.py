"""How well each unit alone tells the classes of a labelled set apart, kept beside a classifier.

A unit's separation is the area under its ROC curve, turned so that it is at least one half: the
chance that of two texts of different classes its value orders them as it does most pairs. The
weights of a classifier do not tell: units that say the same share one weight.
"""

from pathlib import Path

import numpy as np
import torch

from ..files.weights import check_header, load_tensors, save_tensors

FILE = "separation.safetensors"
NAME = "separation"
CHANCE = 0.5  # of a unit that tells nothing


def save_separation(folder: Path, separation: np.ndarray) -> None:
    """Write the separation [H] of a model's units into the folder of its classifier."""
    values = torch.from_numpy(np.asarray(separation, np.float32))
    save_tensors(folder / FILE, {NAME: values})


def load_separation(folder: Path, hidden_size: int) -> np.ndarray | None:
    """Read the separation, float32 [H], of a classifier's folder; None if it has none."""
    path = folder / FILE
    if not path.is_file():
        return None
    check_header(path, {NAME: (hidden_size,)})
    return load_tensors(path)[NAME].float().numpy()
