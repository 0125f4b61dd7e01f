"""A study of one unit: ranked, removed, kept alone, used with few labels, and read.

Every choice is made on train and val; test is only reported on.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_utils.labelled import LabelledSet
from mlstm_sentiment.bounds import check_bounds
from mlstm_sentiment.engine.interface import TextModel
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_json

from ..experiment import (
    describe_model,
    describe_task,
    measure_baselines,
    only_writer_of,
)
from ..features import FeatureCache
from ..plots import unit_histogram
from ..regression import (
    SPLITS,
    Transfer,
    accuracy_on,
    check_classes,
    describe_transfer,
    regress_on_unit,
)
from ..task import StudyOptions
from .ablation import accuracy_by_units, round_counts, without_unit
from .label_efficiency import label_efficiency
from .ranking import Ranking, describe_ranking, describe_unit, rank_units
from .top_activations import find_top_activations

FORMAT_VERSION = 1
TOP = 10  # units listed of each order
_FEWEST = 10  # labels to begin with, unless --labels says others

log = logging.getLogger(__name__)


def run_study(
    loaded: TextModel, sets: Sequence[LabelledSet], output: Path, options: StudyOptions
) -> dict[str, Any]:
    """Study one unit of a model on a task of two classes; return the content of neuron.json.

    sets: train, val, test. Features are kept in `output`/features, as for a transfer; an
    interrupted study measures the rest again.

    Example:
        results = run_study(load_model("amazon_1024"), sets, Path("neuron"), StudyOptions(draws=3))
        write_figures(results, Path("neuron/figures"))
    """
    counts = _check_study(loaded, sets, options)
    with only_writer_of(output):
        cache = FeatureCache(output / "features")
        transfer = Transfer.fitted(cache.examples(loaded, sets))
        train, val, test = transfer.examples
        unit = transfer.neuron.index if options.neuron is None else options.neuron
        ranking = rank_units(train, transfer.regression)
        results = _transferred(transfer, ranking, unit, options)
        results |= describe_task(describe_model(loaded), sets, options.seed)
        parts = {
            "ranking": lambda: describe_ranking(ranking, val, test, TOP),
            "histogram": lambda: unit_histogram(unit, test),
            "without": lambda: without_unit(
                unit, (train, val, test), transfer.regression
            ),
            "by_units": lambda: accuracy_by_units(
                {name: ranking.orders()[name] for name in ("weight", "accuracy")},
                (train, val, test), transfer.regression,
            ),
            "extremes": lambda: find_top_activations(
                loaded, sets[2], test.features[:, unit], unit, results["neuron"]["polarity"],
                results["neuron"]["cut"], options.seed,
            ),
            "baselines": lambda: measure_baselines(
                loaded, sets, cache, transfer.regression.correct(test),
                options.seed, options.untrained,
            ),
            "by_labels": lambda: label_efficiency(
                sets, transfer.examples, unit, counts=counts, draws=options.draws, seed=options.seed
            ),
        }  # fmt: skip
        for name, measure in parts.items():
            log.info("measuring: %s", name.replace("_", " "))
            results[name] = measure()
        write_json(output / "neuron.json", results, "a result")
        return results


def _check_study(
    loaded: TextModel, sets: Sequence[LabelledSet], options: StudyOptions
) -> list[int]:
    """Return the numbers of labels; InputError for sets or options that a study cannot use."""
    if len(sets[0].classes) != 2:
        names = ", ".join(sets[0].classes)
        raise InputError(f"the labels have classes {names}; choose one with --positive")
    for name, part in zip(SPLITS, sets, strict=True):
        check_classes(part.labels, name)
        if not any(loaded.profile.clean(text) for text in part.texts):
            raise InputError(f"every text of the {name} set is empty")
    if loaded.architecture.hidden_size < 2:
        raise InputError("the model has one unit; a study compares a unit with others")
    if options.neuron is not None:
        loaded.architecture.check_unit(options.neuron, -1)
    check_bounds(options, "--")
    most = len(sets[0].labels)
    counts = sorted(set(options.labels)) or round_counts(most, _FEWEST)
    if counts[0] < 2 or counts[-1] > most:
        raise InputError(f"--labels must be between 2 and {most}, the number of training examples")
    return counts


def _transferred(
    transfer: Transfer, ranking: Ranking, unit: int, options: StudyOptions
) -> dict[str, Any]:
    train, val, test = transfer.examples
    whole = transfer.regression
    alone = transfer.neuron
    if unit != alone.index:
        alone = regress_on_unit(unit, whole, train, val)
    described = describe_unit(unit, ranking, val, test)
    return {
        "format_version": FORMAT_VERSION,
        "neuron": {
            "index": unit,
            "chosen": "weight" if options.neuron is None else "name",
            **described,
        },
        "all_units": {"units": train.features.shape[1], **describe_transfer(transfer)},
        "alone": {
            "c": alone.regression.c,
            "val_accuracy": alone.regression.val_accuracy,
            **accuracy_on("test", alone.regression, alone.column(test)),
        },
    }
