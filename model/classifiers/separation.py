"""How well each unit alone tells the classes of a labelled set apart, kept beside a classifier.

It is the area under the unit's ROC curve. Of two classes it is that of the last one: the chance
that of two texts of different classes the unit is higher in the one of the last class. It is below
one half where low values mean the last class. Of more classes it is the largest of all, turned so
that it is at least one half. The weights of a classifier do not tell: units that say the same share
one weight.
"""

from pathlib import Path

import numpy as np
import torch

from ..files.weights import check_header, load_tensors, save_tensors
from .classifier import AREAS_FILE

NAME = "areas"
CHANCE = 0.5  # of a unit that tells nothing


def save_areas(folder: Path, areas: np.ndarray) -> None:
    """Write the areas [H] of a model's units into the folder of its classifier."""
    values = torch.from_numpy(np.asarray(areas, np.float32))
    save_tensors(folder / AREAS_FILE, {NAME: values})


def load_areas(folder: Path, hidden_size: int) -> np.ndarray | None:
    """Read the areas, float32 [H], of a classifier's folder; None if it has none."""
    path = folder / AREAS_FILE
    if not path.is_file():
        return None
    check_header(path, {NAME: (hidden_size,)})
    return load_tensors(path)[NAME].float().numpy()
