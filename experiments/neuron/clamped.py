"""How much do the other units take from one? It is held at its mean while the network reads.

python -m experiments.neuron.clamped --models amazon_1024 amazon_subword_1024 --data DATA

A regression that leaves a unit out still reads states that the unit has helped to make: at every
token, the recurrent matrices carry it to all others. Held at its mean, it gives them nothing. The
three best units on train are studied so, and a few others for comparison. All is fitted on SST's
train, C is chosen on its val, and the accuracies are of its test and of another set, CR.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from configs import command
from data_utils.labelled import LabelledSet
from data_utils.provenance import describe_origin
from experiments.neuron.axes import alike, best_first, read
from experiments.published_sets import SETS
from experiments.results import write_result
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.request import Clamp
from transfer.intervals import paired_difference
from transfer.neuron.ablation import describe_fit
from transfer.regression import Examples, Regression, fit_regression
from transfer.unit_auc import per_feature_auc

BEST = 3  # units, by their AUC on train
OTHERS = 3  # drawn at random
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write a row for each model into the study's results."""

    models: tuple[str, ...]
    """Shipped models, or folders of models."""
    data: Path
    """The folder that holds sst/{train,val,test}.csv and cr/."""


def main() -> None:
    options = command.parse(Options, __doc__)
    sets = [*SETS["sst"].read(options.data).sets, SETS["cr"].read(options.data).texts]
    for name in options.models:
        result = measured(Engine.load(name), sets)
        write_result("neuron", f"clamped_{name}", {**result, "origin": describe_origin()})


def measured(engine: Engine, sets: Sequence[LabelledSet]) -> dict[str, Any]:
    """Return the accuracy of all units, and of those that are left without each studied one."""
    free = read(engine, sets)
    whole = fit_regression(*free[:2])
    states = free[0].features
    best = best_first(per_feature_auc(states, free[0].labels == 1))[:BEST]
    rest = np.setdiff1d(alike(states, best[0]), best)
    drawn = np.random.default_rng(SEED).choice(rest, OTHERS, replace=False)
    rows = []
    for unit in map(int, (*best, *drawn)):
        held = read(engine, sets, Clamp(unit=unit, cell=float(states[:, unit].mean())))
        rows.append({"unit": unit, **compared(unit, whole, free, held)})
        print(rows[-1], flush=True)
    return {"all_units": [described(whole, tested) for tested in free[2:]], "units": rows}


def compared(
    unit: int, whole: Regression, free: list[Examples], held: list[Examples]
) -> dict[str, Any]:
    """Return what the other units know: as they are, and with the unit held while they are made.

    `lost` is against all units, on the same texts, `sets` of each tested set. `next` is the best of
    the other units on train, with its AUCs on train and test.
    """
    others = np.delete(np.arange(free[0].features.shape[1]), unit)
    row = dict[str, Any]()
    for name, examples in (("left_out", free), ("held", held)):
        train, val, *tested = (each.units(others) for each in examples)
        fit = fit_regression(train, val)
        areas = [per_feature_auc(each.features, each.labels == 1) for each in (train, tested[0])]
        place = best_first(areas[0])[0]
        row[name] = {
            "sets": [
                described(fit, mine)
                | paired_difference(whole.correct(all_units), fit.correct(mine))
                for all_units, mine in zip(free[2:], tested, strict=True)
            ],
            "next": {
                "unit": int(others[place]),
                "areas": [float(max(area[place], 1 - area[place])) for area in areas],
            },
        }
    return row


def described(fit: Regression, test: Examples) -> dict[str, Any]:
    area = float(roc_auc_score(test.labels, fit.decide(test.features)))
    return {**describe_fit(fit, test), "area": area}


if __name__ == "__main__":
    command.run(main)
