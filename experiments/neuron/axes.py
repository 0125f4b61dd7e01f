"""Is sentiment a unit or a direction? The best unit beside the best axes of rotated spaces.

Where a model writes sentiment on one unit, the best unit is far better than the best axis after a
random rotation. Where it is spread over many units, the rotation changes little.
"""

from typing import Any

import numpy as np
from scipy.stats import ortho_group

from experiments.neuron.fits import tested
from transfer.neuron.ranking import fit_cuts
from transfer.regression import Examples

ROTATIONS = 5
COMPONENTS = 20  # principal components that are tried as axes


def describe_axes(sets: list[Examples], seed: int) -> dict[str, Any]:
    """Return test accuracies of the best single axis, chosen on train: as is, rotated, principal.

    All features are standardised by the training set.
    """
    mean, scale = sets[0].features.mean(0), sets[0].features.std(0) + 1e-9
    scaled = [Examples((part.features - mean) / scale, part.labels) for part in sets]
    train, _, test = scaled
    units = train.features.shape[1]
    _, _, principal = np.linalg.svd(train.features, full_matrices=False)
    turned = [
        ortho_group.rvs(units, random_state=seed + draw).astype(np.float32)
        for draw in range(ROTATIONS)
    ]
    return {
        "best_unit": best_axis(train, test),
        "best_of_turned": [best_axis(project(train, r), project(test, r)) for r in turned],
        "best_principal": best_axis(
            project(train, principal[:COMPONENTS].T), project(test, principal[:COMPONENTS].T)
        ),
        "principal_components": COMPONENTS,
    }


def project(examples: Examples, axes: np.ndarray) -> Examples:
    """Return the examples seen along axes [F, A]."""
    return Examples(examples.features @ axes, examples.labels)


def best_axis(train: Examples, test: Examples) -> dict[str, Any]:
    """Return the axis that is best by itself on train, and its accuracy on test."""
    axis, right = right_by_best(train, test)
    return {"axis": axis, **tested(float(right.mean()), len(right))}


def right_by_best(train: Examples, test: Examples) -> tuple[int, np.ndarray]:
    """Return the axis that is best by itself on train, and which of test it has right, bool [N]."""
    cuts = fit_cuts(train)
    best = int(cuts.accuracies(train).argmax())
    is_high = test.features[:, best] > cuts.values[best]
    return best, is_high == (test.labels == (cuts.polarity[best] > 0))
