"""Arrays in .npy files."""

from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import InputError, brief


def map_array(path: Path, mode: Literal["r", "r+"], remedy: str) -> np.memmap:
    """Map an array without reading it; nothing is unpickled.

    Raises InputError for a file that is damaged, cut short, or holds objects; remedy: what its
    message ends with.
    """
    try:
        return np.lib.format.open_memmap(path, mode=mode)
    except OSError:  # of the system, not of what is in the file
        raise
    except Exception as error:  # of a damaged header, which is Python, its parser raises anything
        reason = brief(error) or type(error).__name__
        raise InputError(
            f"{path}: not a plain array, or damaged or cut short ({reason}); {remedy}"
        ) from error
