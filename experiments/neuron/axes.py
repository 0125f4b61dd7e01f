"""Is sentiment in one unit, or in a direction that one unit happens to be near?

python -m experiments.neuron.axes --models amazon_1024 amazon_subword_1024 --data DATA

Three operations on the states after SST's sentences, and one on the network itself:
- rotate: random rotations keep all that a regression can read, and move the axes. If units mean
  something, the best of them separates better than the best axis of a rotated space.
- prune: leave the best units out, and fit the rest anew.
- clamp: hold a unit at its mean while the network reads, and see what its predictions lose.

All is fitted and chosen on the train split and read on val; no test set is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from configs import command
from data_utils.labelled import LabelledSet
from data_utils.provenance import describe_origin
from experiments.published_sets import SETS
from experiments.results import write_result
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.request import Clamp
from transfer.regression import Examples
from transfer.unit_auc import per_feature_auc

ROTATIONS = 20
STRENGTHS = {"C": [1e-4, 1e-3, 1e-2, 1e-1]}  # of standardized states
PRUNED = (1, 10, 100, 300)
CLAMPED = 10  # other units, drawn at random
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write a row for each model into the study's results."""

    models: tuple[str, ...]
    """Shipped models, or folders of models."""
    names: tuple[str, ...] = ()
    """What the rows are called; by default the models' names."""
    data: Path
    """The folder that holds sst/{train,val}.csv."""


def main() -> None:
    options = command.parse(Options, __doc__)
    for model, name in zip(options.models, options.names or options.models, strict=True):
        engine, train, val = read_sst(model, options.data)
        row = measured(train, val)
        row["clamp"] = clamped(engine, val.texts, train.states, row["units"][0]["axis"])
        print(name, row)
        write_result("neuron", f"axes_{name}", {**row, "origin": describe_origin()})


@dataclass(frozen=True)
class Part:
    """A split of SST: its texts, the final cell states [N, H], and its labels [N]."""

    texts: list[str]
    states: np.ndarray
    labels: np.ndarray


def read_sst(model: str, data: Path) -> tuple[Engine, Part, Part]:
    """Return the model, and what it makes of the train and the val split."""
    engine, splits = Engine.load(model), SETS["sst"].read(data).sets[:2]
    train, val = (
        Part(split.texts, each.features, each.labels)
        for split, each in zip(splits, read(engine, splits), strict=True)
    )
    return engine, train, val


def read(engine: Engine, sets: Sequence[LabelledSet], clamp: Clamp | None = None) -> list[Examples]:
    """Return the final cell states of sets, with their labels."""
    readings = [engine.read(each.texts, ("last",), state="cell", clamp=clamp) for each in sets]
    return [
        Examples(reading.features(("last",)), each.labels)
        for reading, each in zip(readings, sets, strict=True)
    ]


def measured(train_part: Part, val_part: Part, pruned: Sequence[int] = PRUNED) -> dict[str, Any]:
    """Return what units, rotated axes and all units tell of val's labels.

    pruned: how many of the best units are left out, one row each.
    """
    train, train_labels = train_part.states, train_part.labels
    val, val_labels = val_part.states, val_part.labels
    scaler = StandardScaler().fit(train)
    parts = scaler.transform(train), scaler.transform(val)
    areas = per_feature_auc(parts[0], train_labels == 1)
    order = best_first(areas)
    draw = np.random.default_rng(SEED)
    rotated = []
    for _ in range(ROTATIONS):
        turn, _ = np.linalg.qr(draw.normal(size=(train.shape[1],) * 2))
        turned = per_feature_auc(parts[0] @ turn, train_labels == 1)
        rotated += best_axes(turned, parts[1] @ turn, val_labels, 1)
    whole = fitted(*parts, train_labels, val_labels)
    weights = whole.pop("weights")
    return {
        "units": best_axes(areas, parts[1], val_labels, 3),
        "rotated": rotated,
        "all": whole,
        "share of the largest squared weight": float((weights**2).max() / (weights**2).sum()),
        "pruned": {
            str(count): {
                name: value
                for name, value in fitted(
                    parts[0][:, order[count:]], parts[1][:, order[count:]], train_labels, val_labels
                ).items()
                if name != "weights"
            }
            for count in pruned
            if count < len(order)
        },
    }


def best_first(areas: np.ndarray) -> np.ndarray:
    """Return the axes in the order of how well they separate, whichever side is high."""
    return np.argsort(-np.abs(areas - 0.5))


def best_axes(
    areas: np.ndarray, val: np.ndarray, val_labels: np.ndarray, count: int
) -> list[dict[str, Any]]:
    """Return the axes that separate train best, and how well they separate both parts.

    areas: AUC of each axis on train.
    """
    return [
        {
            "axis": int(axis),
            "train": float(max(areas[axis], 1 - areas[axis])),
            "val": float(
                roc_auc_score(val_labels, val[:, axis] * (1 if areas[axis] > 0.5 else -1))
            ),
        }
        for axis in best_first(areas)[:count]
    ]


def fitted(
    train: np.ndarray, val: np.ndarray, train_labels: np.ndarray, val_labels: np.ndarray
) -> dict[str, Any]:
    """Return accuracy and AUC of a regression on all columns; C by cross-validation on train."""
    search = GridSearchCV(LogisticRegression(max_iter=300), STRENGTHS, cv=3).fit(
        train, train_labels
    )
    odds = search.decision_function(val)
    return {
        "accuracy": float(((odds > 0) == (val_labels == 1)).mean()),
        "area": float(roc_auc_score(val_labels, odds)),
        "C": search.best_params_["C"],
        "weights": search.best_estimator_.coef_[0],
    }


def alike(states: np.ndarray, unit: int) -> np.ndarray:
    """Return the other units whose states [N, H] vary by between half and twice as much."""
    spread = states.std(0)
    found = np.flatnonzero((spread > spread[unit] / 2) & (spread < 2 * spread[unit]))
    return found[found != unit]


def clamped(engine: Engine, texts: list[str], states: np.ndarray, unit: int) -> dict[str, Any]:
    """Return how many more bits a token costs if the unit is held at its mean, and if others are.

    The others are drawn from the units that are `alike`.
    """
    like = alike(states, unit)
    draw = np.random.default_rng(SEED)
    others = draw.choice(like, min(CLAMPED, len(like)), replace=False)

    def bits(clamp: Clamp | None) -> float:
        reading = engine.read(texts, (), bits=True, clamp=clamp)
        assert reading.bits is not None
        return float(reading.bits.sum() / reading.lengths.sum())

    base = bits(None)
    lost = {
        int(each): bits(Clamp(unit=int(each), cell=float(states[:, each].mean()))) - base
        for each in (unit, *others)
    }
    return {"bits": base, "unit": lost.pop(unit), "others": lost}


if __name__ == "__main__":
    command.run(main)
