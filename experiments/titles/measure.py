"""What the runs of this study know of titles: their bits, and a sentiment read without labels.

python -m experiments.titles.measure --corpus data/reviews --data DATA --work runs/titles
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from configs import command
from data_utils.corpus import open_corpus
from data_utils.provenance import describe_origin
from data_utils.published_sets.registry import SETS
from data_utils.titles import titles_of
from experiments.features.titles import score_titles
from experiments.studies import HERE, what_is_known, whole_results
from experiments.training_runs import weights_at_end
from model.files.storage import read_json, write_json
from model.files.weights import LoadedModel, load_model
from model.scoring import split_costs
from model.text.split import Split

STUDY = "titles"
CONTINUED = "amazon_1024"  # the shipped model that some runs continue
KNOWN = HERE / STUDY / "known.json"


@dataclass(frozen=True)
class Options:
    """Measure each run of the study that has a result, unless it was measured."""

    corpus: Path = Path("data/reviews")
    """The corpus of the runs."""
    data: Path = Path("data")
    """The folder of the published sets."""
    work: Path = Path("runs/titles")
    """Where the runs are."""


def main() -> None:
    options = command.parse(Options, __doc__)
    valid = open_corpus(options.corpus).splits["valid"]
    sets = SETS["sst"].read(options.data).sets
    known = read_json(KNOWN)["runs"] if KNOWN.exists() else {}
    origin = describe_origin()  # before the file changes, which git may have
    for name, place in places(options.work):
        if name not in known:
            loaded = load_model(place, compute_dtype=torch.float32)
            scores = score_titles(loaded, *sets[1:], len(sets[2].texts))
            known[name] = {**bits_by_part(loaded, valid), "sst_by_titles": scores}
            if name == CONTINUED:
                known[name] |= what_is_known(loaded, sets)
            write_json(KNOWN, {"runs": known, "origin": origin})
            print(name, known[name], flush=True)


def places(work: Path) -> Iterator[tuple[str, str | Path]]:
    """Yield each model with its place: the shipped one, and of each run with a result its end."""
    yield CONTINUED, CONTINUED
    for name in whole_results(STUDY):
        yield name, weights_at_end(work / name)


def bits_by_part(loaded: LoadedModel, split: Split) -> dict[str, float]:
    """Return the bits per character of the split's titles, and of the rest of its text."""
    is_title = np.zeros(len(split.tokens), bool)
    for begin, end in titles_of(split):
        is_title[begin:end] = True
    bits, _ = split_costs(loaded.model, split)  # [n]
    return {
        name: float(bits[part].mean(dtype=np.float64))
        for name, part in (("titles", is_title), ("text", ~is_title))
    }


if __name__ == "__main__":
    command.run(main)
