"""The AUC of each unit: how well it alone separates the classes of a labelled set.

With two classes, it is the chance that the unit is higher for a text of the last class than for one
of the other; below one half, low values mean the last class. With more classes, it is the largest
AUC of any class, folded above 0.5. Classifier weights cannot show this: redundant units
split one weight.
"""

from pathlib import Path

import numpy as np

from ..files.tensors import read_floats, write_arrays
from .head_files import AREAS_FILE

NAME = "areas"
CHANCE = 0.5  # the AUC of a unit that does not separate the classes


def save_areas(folder: Path, areas: np.ndarray) -> None:
    """Write the AUC of each unit of a model, [H], into the folder of its classifier."""
    write_arrays(folder / AREAS_FILE, {NAME: np.asarray(areas, np.float32)})


def load_areas(folder: Path, hidden_size: int) -> np.ndarray | None:
    """Read the AUC of each unit, float32 [H], from a classifier's folder; None if it has none."""
    path = folder / AREAS_FILE
    if not path.is_file():
        return None
    return read_floats(path, {NAME: (hidden_size,)})[NAME]
