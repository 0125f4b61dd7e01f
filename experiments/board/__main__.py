"""Measure every shipped model, one unit alone and honest baselines, and make the pages again.

python -m experiments.board --data DATA
python -m experiments.board --data DATA --methods default default_small --domains    # new heads
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.metrics import roc_auc_score

from configs import command
from data_utils.provenance import describe_origin
from experiments import tables
from experiments.calibration import error_and_null
from experiments.intervals import packed_answers
from experiments.results import write_result
from transfer.regression import accuracy_interval

from .domains import DOMAINS
from .label_free import measure_domains
from .methods import METHODS, Answers
from .sets import TEST_SETS, Texts, left_out, read_set


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure methods on the board's sets; what is absent is left out, with the reason."""

    data: Path
    """The folder that holds sst/, imdb/, cr/, semeval/, amazon/, other/ and everyday/test.tsv."""
    methods: tuple[Literal[*METHODS], ...] = tuple(METHODS)  # type: ignore[valid-type]
    """Names of methods."""
    domains: tuple[Literal[*DOMAINS], ...] = tuple(DOMAINS)  # type: ignore[valid-type]
    """Names of the domains of label_free.md."""


def main() -> None:
    options = command.parse(Options, __doc__)
    sets = present_sets(options.data) if options.methods else {}
    for name in options.methods:
        with left_out(name):
            result = measure(name, options.data, sets)
            write_result("board", name, {**result, "origin": describe_origin()})
            shown = [f"{key} {row['accuracy']:.4f}" for key, row in result["sets"].items()]
            print(f"{name}: {', '.join(shown)}", flush=True)
    with left_out("domains"):
        measure_domains(options.data, options.domains)
    tables.update()


def present_sets(data: Path) -> dict[str, Texts]:
    """Return the test sets that are there; print why the others are not."""
    sets = {}
    for name, test_set in TEST_SETS.items():
        with left_out(name):
            sets[name] = read_set(test_set, data)
    return sets


def measure(name: str, data: Path, sets: dict[str, Texts]) -> dict[str, Any]:
    """Return the settings of a method and its measures on each set."""
    title, make = METHODS[name]
    method = make(data)
    rows = {key: describe(method.answer(part.texts), part) for key, part in sets.items()}
    return {"method": title, "config": method.settings, "sets": rows}


def describe(answers: Answers, part: Texts) -> dict[str, Any]:
    """Return the measures on a set: of texts with a side, and of three answers.

    The choice of a side is forced: a probability of exactly a half counts as negative.
    """
    sided = part.labels != 0.5
    positive, labels = answers.positive[sided], part.labels[sided] == 1
    right = (positive > 0.5) == labels
    accuracy = float(right.mean())
    result = {
        "texts": len(labels),
        "digest": part.digest,
        "accuracy": accuracy,
        "accuracy_interval": accuracy_interval(accuracy, len(labels)),
        "area": float(roc_auc_score(labels, positive)),
        "draws": [float(((draw[sided] > 0.5) == labels).mean()) for draw in answers.draws],
        "right": packed_answers(right),
        "calibration": calibration(positive, labels),
    }
    if part.kinds:
        kinds = np.array(part.kinds)[sided]
        result["kinds"] = {
            kind: [int(right[kinds == kind].sum()), int((kinds == kind).sum())]
            for kind in dict.fromkeys(kinds.tolist())
        }
    if answers.neutral is not None and not sided.all():
        choices = np.where(answers.neutral, 0.5, answers.positive > 0.5)
        three = choices == part.labels
        interval = accuracy_interval(float(three.mean()), len(three))
        result["three"] = {"accuracy": float(three.mean()), "accuracy_interval": interval}
    return result


def calibration(positive: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return the error of P(positive), and its 95 % quantile if P were perfectly calibrated."""
    error, null = error_and_null(positive, labels)
    means = {"mean": float(positive.mean()), "positives": float(labels.mean())}
    return {"error": error, "null": null, **means}


if __name__ == "__main__":
    command.run(main)
