"""A transfer from end to end: features, regression, neuron, baselines, results."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.labelled import LabelledSet
from data_utils.provenance import describe_origin
from mlstm_sentiment.engine.interface import TextModel
from mlstm_sentiment.engine.kinds import FeatureKind, Pooling
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import (
    LOCK_FILE,
    check_replaceable,
    one_at_a_time,
    whole_folder,
)
from mlstm_sentiment.files.writer import check_output, write_json
from mlstm_sentiment.head.head import Head, HeadUnit
from mlstm_sentiment.head.head_files import (
    CLASSIFIER_FILES,
    CONFIG_FILE,
    FOLDER,
    classifier_in,
    read_description,
    save_head,
)
from mlstm_sentiment.head.steps import Affine, OneVsRest, Sigmoid
from model.inference.weights import untrained_like
from model.layers.language_model import layer_of, parameter_count

from .baselines import TFIDF, baseline_choices, majority_accuracy
from .features import FeatureCache
from .intervals import over_draws, paired_difference
from .metrics import choose_threshold
from .plots import FIGURES, PICTURES, write_figures
from .regression import (
    SPLITS,
    Transfer,
    accuracy_on,
    check_classes,
    describe_transfer,
    fit_regression,
    with_interval,
)
from .unit_auc import save_units

RESULTS = "results.json"

log = logging.getLogger(__name__)


def run_transfer(
    loaded: TextModel,
    sets: Sequence[LabelledSet],
    output: Path,
    *,
    pooling: tuple[Pooling, ...] = ("last",),
    seed: int = 0,
    untrained: int = 1,
) -> dict[str, Any]:
    """Transfer a model to a labelled task and write everything to `output`.

    sets: train, val, test; pooling: how states become features, several concatenated; untrained:
    number of seeds of that baseline. Returns the content of `results.json`. Raises InputError if
    train or val has a single class, or if every text of train is empty.

    Example:
        sets = read_labelled_sets([Path("train.csv"), Path("val.csv"), Path("test.csv")])
        results = run_transfer(load_model("amazon_1024"), sets, Path("transfer"))
        results["test_accuracy"], results["neuron"]["index"]
    """
    check_classes(sets[0].labels)
    check_classes(sets[1].labels, "validation", ": give --val texts of another class too")
    if not any(text.strip() for text in sets[0].texts):
        raise InputError("every text of the training set is empty")
    with only_writer_of(output):
        other = classifier_in(output)
        if other and "c" not in read_description(other / CONFIG_FILE).get("origin", {}):
            raise InputError(  # such as tuned heads
                f"{other}: is not a classifier of transfer.py; name another folder with --output"
            )
        check_replaceable(output / FOLDER, CLASSIFIER_FILES)
        for name in (RESULTS, FIGURES):
            check_output(output / name, "a transfer")
        for name in PICTURES:
            check_output(output / name, "a picture")
        model, state = describe_model(loaded), layer_of(loaded.architecture.cell).feature
        cache = FeatureCache(output / "features", FeatureKind(pooling=pooling))
        transfer = Transfer.fitted(cache.examples(loaded, sets))
        if not transfer.regression.coefficients.any():
            log.warning("no unit separates the classes: every text will get the same answer")
        neuron, right = transfer.neuron, transfer.regression.correct(transfer.examples[2])
        classifier, threshold = as_classifier(transfer, sets[0].classes, model["digest"], pooling)
        results = {
            **describe_transfer(transfer),
            "neuron": {
                "index": classifier.neuron,
                "pooling": classifier.own_unit.pooling,
                "polarity": neuron.polarity,
                "weight": float(transfer.regression.positive_weights()[neuron.index]),
                "val_accuracy": neuron.regression.val_accuracy,
                **accuracy_on("test", neuron.regression, neuron.column(transfer.examples[2])),
            },
            **({"threshold": threshold} if threshold else {}),
            "pooling": list(pooling),
            **describe_task(model, sets, seed),
            "baselines": measure_baselines(loaded, sets, cache, right, seed, untrained),
        }
        save_transferred(output / FOLDER, classifier, transfer, sets)
        write_figures(output, transfer, classifier, state)
        write_json(output / RESULTS, results, "a transfer")
        return results


@contextmanager
def only_writer_of(output: Path) -> Iterator[None]:
    """Make a folder of results; InputError while another command writes into it."""
    busy = f"{output}: another command is writing its results here; wait, or name another folder"
    output.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(output / LOCK_FILE, busy):
        yield


def describe_task(
    model: Mapping[str, Any], sets: Sequence[LabelledSet], seed: int
) -> dict[str, Any]:
    """Return what results of train, val and test were measured on, and with what.

    model: what `describe_model` says of it.
    """
    return {
        "examples": {name: len(part.texts) for name, part in zip(SPLITS, sets, strict=True)},
        "classes": list(sets[0].classes),
        "seed": seed,
        "model": dict(model),
        "origin": describe_origin(),
    }


def describe_model(loaded: TextModel) -> dict[str, Any]:
    """Return the model's architecture, size, digest of weights, and origin."""
    return {
        "digest": loaded.digest(),
        "parameters": parameter_count(loaded.architecture),
        "architecture": loaded.architecture.architecture(),
        "provenance": dict(loaded.provenance),
    }


def as_classifier(
    transfer: Transfer,
    classes: tuple[str, ...],
    model_digest: str,
    pooling: tuple[Pooling, ...] = ("last",),
) -> tuple[Head, dict[str, Any]]:
    """Return the regression on all units as a head, with its pooling and its top unit.

    With two classes, val decides the threshold. Also returned is the accuracy with that threshold:
    of the labels of classify.py.
    """
    regression = transfer.regression
    weight = np.atleast_2d(regression.coefficients)
    which, unit = divmod(transfer.neuron.index, weight.shape[1] // len(pooling))
    head = Head(
        classes=classes,
        steps=(
            Affine(weight, np.atleast_1d(regression.intercept)),
            Sigmoid() if len(weight) == 1 else OneVsRest(),
        ),
        model_digest=model_digest,
        pooling=pooling,
        unit=HeadUnit(unit, 1 if transfer.neuron.polarity > 0 else -1, pooling[which]),
    )
    if not head.is_binary:
        return head, {}
    held_out = transfer.examples[1:]
    probabilities = [head.probabilities(part.features) for part in held_out]
    head = head.with_threshold(choose_threshold(probabilities[0], held_out[0].labels))
    results: dict[str, Any] = {"value": head.threshold}
    for name, part, each in zip(SPLITS[1:], held_out, probabilities, strict=False):
        right = float((head.choose(each) == part.labels).mean())
        results |= with_interval(name, right, len(part.labels))
    return head, results


def save_transferred(
    folder: Path, classifier: Head, transfer: Transfer, sets: Sequence[LabelledSet]
) -> None:
    """Write a classifier with its origin, and each unit's AUC and limit on train."""
    train = transfer.examples[0]
    data = {
        name: {"examples": len(part.texts), "sha256": part.digest}
        for name, part in zip(SPLITS[:2], sets, strict=False)
    }
    with whole_folder(folder, CLASSIFIER_FILES) as partial:
        origin = {"data": data, "c": transfer.regression.c, **describe_origin()}
        save_head(partial, classifier, origin)
        save_units(partial, train.features, train.labels, classifier.units)


def measure_baselines(
    loaded: TextModel,
    sets: Sequence[LabelledSet],
    cache: FeatureCache,
    right: np.ndarray,
    seed: int = 0,
    untrained: int = 1,
) -> dict[str, Any]:
    """Return the accuracies of the baselines on test, each with its interval.

    sets: train, val, test; right: bool [N], the texts of test that the model's features classify
    correctly. `lost` is what these lose against TF-IDF. `untrained` models of the same
    architecture, each with its own seed, read all texts; their accuracy is the mean over the seeds.
    """
    train, val, test = sets
    tested, words = len(test.labels), baseline_choices(TFIDF, train, val, test) == test.labels
    by_seed = []
    for draw in range(untrained):
        *fitted, tested_on = cache.examples(untrained_like(loaded, seed + draw), sets)
        by_seed.append(fit_regression(*fitted).accuracy(tested_on))
    return {
        "majority": with_interval("test", majority_accuracy(train, test), tested),
        "tfidf": {
            **with_interval("test", float(words.mean()), tested),
            **paired_difference(words, right),
        },
        "untrained": over_draws(by_seed, tested),
    }
