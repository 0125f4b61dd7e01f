"""What labelled texts say of each unit: how well it alone separates the classes, and its limit.

With two classes, the AUC of a unit is the chance that the unit is higher for a text of the last
class than for one of the other; below one half, low values mean the last class. With more classes,
it is the largest AUC of any class, folded above 0.5. Classifier weights cannot show this: redundant
units split one weight.

The limit of a unit is the larger size of its 5th and its 95th percentile after these texts. A
picture's scale ends there.
"""

from pathlib import Path

import numpy as np

from ..files.tensors import read_floats, write_arrays
from .head_files import AREAS_FILE

_AREAS, _LIMITS = "areas", "limits"
CHANCE = 0.5  # the AUC of a unit that does not separate the classes


def save_areas(folder: Path, areas: np.ndarray, limits: np.ndarray | None = None) -> None:
    """Write the AUC and the limit of each unit of a model, [H], into its classifier's folder."""
    arrays = {_AREAS: areas} if limits is None else {_AREAS: areas, _LIMITS: limits}
    named = {name: np.asarray(each, np.float32) for name, each in arrays.items()}
    write_arrays(folder / AREAS_FILE, named)


def load_areas(
    folder: Path | None, hidden_size: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Read the AUC and the limit of each unit, float32 [H]; None for what the folder lacks."""
    path = None if folder is None else folder / AREAS_FILE
    if path is None or not path.is_file():
        return None, None
    shape = (hidden_size,)
    floats = read_floats(path, {_AREAS: shape}, {_LIMITS: shape})  # earlier files have no limits
    return floats[_AREAS], floats.get(_LIMITS)
