"""What is asked of one model on labelled sets, and the file that tells what was found."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import torch

from data_utils.options import Model
from data_utils.provenance import describe_origin
from model.files.weights import LoadedModel, load_model
from transfer.experiment import describe_model


@dataclass(frozen=True, kw_only=True)
class OneModelOnSets:
    """Options of a study of one model on SST, MR and a part of IMDB."""

    model: Model = "amazon_1024"
    data: Path
    """The folder that holds a folder for each set: sst/, mr/, imdb/."""
    output: Path
    """The JSON file to write."""
    sets: tuple[Literal["sst", "mr", "imdb"], ...] = ("sst", "mr", "imdb")
    """Which sets are read."""
    most_texts: int = 1000
    """Most texts of IMDB for each of fitting, choosing and testing; SST and MR are read whole."""
    seed: int = 0
    """Draws the texts of IMDB."""


def measure_sets(
    options: OneModelOnSets, measure: Callable[[str, LoadedModel], dict[str, Any]]
) -> dict[str, Any]:
    """Return what `measure` tells of each set, with the seed, the seconds, model and origin."""
    loaded = load_model(options.model, compute_dtype=torch.float32)
    started = perf_counter()
    found = {name: measure(name, loaded) for name in options.sets}
    about = {"model": describe_model(loaded), "origin": describe_origin()}
    return {"sets": found, "seed": options.seed, "seconds": perf_counter() - started, **about}
