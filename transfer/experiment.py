"""A transfer from end to end: features, regression, neuron, baselines, results."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data_utils.labelled import LabelledSet
from data_utils.provenance import describe_origin
from model.classifier import Classifier, save_classifier
from model.errors import InputError
from model.language_model import LanguageModel, build_model
from model.storage import write_json
from model.weights import LoadedModel, model_digest

from .baselines import majority_accuracy, tfidf_accuracy
from .calibration import calibrate_threshold
from .features import FeatureCache
from .plots import legend, neuron_histogram, plot_neuron, plot_weights, weight_contributions
from .regression import (
    Examples,
    Neuron,
    Regression,
    accuracy_interval,
    check_classes,
    find_neuron,
    fit_regression,
)

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Transfer:
    """A model's features on labelled sets, and what was fitted on the first two."""

    examples: list[Examples]  # train, val, test if there is one
    regression: Regression
    neuron: Neuron


def run_transfer(
    loaded: LoadedModel, sets: Sequence[LabelledSet], output: Path, *, seed: int = 0
) -> dict[str, Any]:
    """Transfer a model to a labelled task and write everything to `output`.

    sets: train, val, test. Returns what `results.json` holds.
    """
    check_classes(sets[0].labels)
    if not any(text.strip() for text in sets[0].texts):
        raise InputError("every text of the training set is empty")
    cache = FeatureCache(output / "features")
    transfer = fit_transfer(loaded, sets, cache, seed)
    classifier = as_classifier(transfer, loaded, sets[0].classes)
    results = _accuracies(transfer)
    if classifier.is_binary:
        results["threshold"] = _at_threshold(classifier, transfer)
    results["baselines"] = _baselines(loaded, sets, cache, seed)
    results["examples"] = {name: len(part.texts) for name, part in zip(SPLITS, sets, strict=True)}
    results["classes"] = list(sets[0].classes)
    results["seed"] = seed
    results["model"] = {
        "architecture": loaded.model.config.architecture(),
        "provenance": dict(loaded.provenance),
    }
    results["origin"] = describe_origin()
    _write_figures(transfer, sets[0].classes, output)
    save_classifier(output / "classifier", classifier)
    write_json(output / "results.json", results)
    return results


def fit_transfer(
    loaded: LoadedModel, sets: Sequence[LabelledSet], cache: FeatureCache, seed: int = 0
) -> Transfer:
    """Featurize the sets, train and val and perhaps test, and fit on the first two."""
    examples = featurize_sets(loaded.model, loaded, sets, cache)
    train, val = examples[:2]
    regression = fit_regression(train, val, seed)
    return Transfer(examples, regression, find_neuron(regression, train, val, seed))


def as_classifier(transfer: Transfer, loaded: LoadedModel, classes: tuple[str, ...]) -> Classifier:
    """Return what was fitted on all units, with the top one's place.

    Of two classes, val decides the threshold.
    """
    classifier = Classifier(
        transfer.regression.coefficients,
        transfer.regression.intercept,
        classes,
        transfer.neuron.index,
        transfer.neuron.polarity,
        model_digest(loaded.model),
    )
    if not classifier.is_binary:
        return classifier
    val = transfer.examples[1]
    threshold = calibrate_threshold(classifier.probabilities(val.features), val.labels)
    return replace(classifier, threshold=threshold)


def featurize_sets(
    model: LanguageModel, loaded: LoadedModel, sets: Sequence[LabelledSet], cache: FeatureCache
) -> list[Examples]:
    """Featurize the sets with `model`; text is read as `loaded` says."""
    return [
        Examples(cache.features(model, list(map(loaded.tokens, part.texts)), name), part.labels)
        for name, part in zip(SPLITS[: len(sets)], sets, strict=True)
    ]


def _accuracies(transfer: Transfer) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, examples in zip(SPLITS, transfer.examples, strict=True):
        results |= _accuracy(name, transfer.regression.accuracy(examples), examples)
    neuron, test = transfer.neuron, transfer.examples[2]
    return {
        **results,
        "c": transfer.regression.c,
        "converged": transfer.regression.converged,
        "nonzero": int((transfer.regression.coefficients != 0).sum()),
        "neuron": {
            "index": neuron.index,
            "polarity": neuron.polarity,
            "weight": float(transfer.regression.last_class()[neuron.index]),
            "val_accuracy": neuron.regression.val_accuracy,
            **_accuracy("test", neuron.regression.accuracy(neuron.column(test)), test),
        },
    }


def _at_threshold(classifier: Classifier, transfer: Transfer) -> dict[str, Any]:
    """Return what classify.py's labels are worth: the same regression, cut where val said."""
    results: dict[str, Any] = {"value": classifier.threshold}
    for name, examples in zip(SPLITS[1:], transfer.examples[1:], strict=True):
        chosen = classifier.choose(classifier.probabilities(examples.features))
        results |= _accuracy(name, float((chosen == examples.labels).mean()), examples)
    return results


def _accuracy(name: str, accuracy: float, examples: Examples) -> dict[str, Any]:
    interval = accuracy_interval(accuracy, len(examples.labels))
    return {f"{name}_accuracy": accuracy, f"{name}_interval": interval}


def _baselines(
    loaded: LoadedModel, sets: Sequence[LabelledSet], cache: FeatureCache, seed: int
) -> dict[str, Any]:
    train, val, test = sets
    untrained = build_model(loaded.model.config, seed, loaded.model.compute_dtype).eval()
    blank = featurize_sets(untrained, loaded, sets, cache)
    accuracies = {
        "majority": majority_accuracy(train, test),
        "tfidf": tfidf_accuracy(train, val, test),
        "untrained": fit_regression(blank[0], blank[1], seed).accuracy(blank[2]),
    }
    return {name: _accuracy("test", accuracy, blank[2]) for name, accuracy in accuracies.items()}


def _write_figures(transfer: Transfer, classes: tuple[str, ...], output: Path) -> None:
    contributions = weight_contributions(transfer.regression)
    histogram = neuron_histogram(transfer.neuron, transfer.examples[2], legend(classes))
    plot_weights(contributions, output / "weights.png")
    plot_neuron(histogram, transfer.neuron, output / "neuron.png")
    figures = {"weights": contributions.tolist(), "neuron_by_label": histogram}
    write_json(output / "figures.json", figures)
