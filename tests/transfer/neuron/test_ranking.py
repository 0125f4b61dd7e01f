"""Units by themselves: cuts, areas and their intervals against slower definitions."""

import numpy as np
import pytest
from scipy.stats import binomtest

from experiments.intervals import area_difference
from tests.transfer.examples import make_examples
from transfer.neuron.ranking import (
    Cuts,
    Ranking,
    area_interval,
    describe_ranking,
    fit_cuts,
    rank_units,
)
from transfer.regression import Examples, fit_regression
from transfer.unit_auc import COLUMNS


def coarse_examples(seed, count=41):
    """Values with many ties, one column constant."""
    rng = np.random.default_rng(seed)
    features = rng.integers(-3, 4, (count, 7)).astype(np.float32) / 4
    features[:, 4] = 0.25
    labels = rng.integers(0, 2, count)
    features[:, 1] += labels
    features[:, 5] -= labels
    return Examples(features, labels)


def best_by_trying(values, labels):
    """Return the highest accuracy over all cuts, in both directions."""
    distinct = np.unique(values)
    cuts = [distinct[0] - 1, *((distinct[:-1] + distinct[1:]) / 2)]
    accuracies = [((values > cut) == labels).mean() for cut in cuts]
    return max(*accuracies, *(1 - accuracy for accuracy in accuracies))


@pytest.mark.parametrize("seed", range(6))
def test_no_cut_is_better(seed):
    train = coarse_examples(seed, count=40 + seed)
    cuts = fit_cuts(train)
    accuracies = cuts.accuracies(train)
    for unit in range(7):
        expected = best_by_trying(train.features[:, unit], train.labels)
        assert accuracies[unit] == pytest.approx(expected, abs=1e-12)
    majority = max(train.labels.mean(), 1 - train.labels.mean())
    assert accuracies[4] == pytest.approx(majority)  # of the constant unit
    assert cuts.polarity[1] == 1
    assert cuts.polarity[5] == -1


def test_units_are_measured_block_by_block():
    few = coarse_examples(3)
    many = Examples(np.tile(few.features, COLUMNS), few.labels)
    one, each = fit_cuts(few), fit_cuts(many)
    np.testing.assert_array_equal(each.values, np.tile(one.values, COLUMNS))
    np.testing.assert_array_equal(each.accuracies(many), np.tile(one.accuracies(few), COLUMNS))


def test_cuts_of_equal_accuracy_and_of_values_that_differ_by_the_last_bit():
    equal = Examples(np.arange(4.0)[:, None], np.array([0, 1, 0, 1]))  # 0.5 and 2.5 err once
    assert fit_cuts(equal).values.tolist() == [0.5]  # the lowest
    low = np.float32(1)
    near = Examples(np.array([[low], [np.nextafter(low, np.float32(2))]]), np.array([1, 0]))
    cuts = fit_cuts(near)
    assert (cuts.polarity.tolist(), cuts.accuracies(near).tolist()) == ([-1], [1.0])


def test_a_cut_keeps_to_its_side_on_other_texts():
    cuts = Cuts(np.array([0.0, 0.0]), np.array([1, -1]))
    test = Examples(np.array([[1, 1], [0, 0], [-1, -1]], np.float32), np.array([1, 1, 0]))
    np.testing.assert_allclose(cuts.accuracies(test), [2 / 3, 1 / 3])


def test_the_interval_of_an_area_is_delongs():
    """All pairs give the two components of the variance that DeLong et al. 1988 define."""
    examples = coarse_examples(3)
    values, labels = examples.features[:, 1], examples.labels
    high, low = values[labels == 1][:, None], values[labels == 0][None]
    kernel = (high > low) + 0.5 * (high == low)  # [positives, negatives]
    variance = sum(kernel.mean(axis).var(ddof=1) / kernel.shape[1 - axis] for axis in (0, 1))
    margin = 1.959964 * np.sqrt(variance)
    expected = np.clip([kernel.mean() - margin, kernel.mean() + margin], 0, 1)
    np.testing.assert_allclose(area_interval(values, labels), expected, atol=1e-6)


def test_the_difference_of_two_areas_is_delongs_on_the_same_examples():
    examples = coarse_examples(3)
    labels, (first, second) = examples.labels, examples.features.T[1:3]
    kernel = 0.0  # of the difference, [positives, negatives]
    for values, sign in ((first, 1), (second, -1)):
        high, low = values[labels == 1][:, None], values[labels == 0][None]
        kernel = kernel + sign * ((high > low) + 0.5 * (high == low))
    variance = sum(kernel.mean(axis).var(ddof=1) / kernel.shape[1 - axis] for axis in (0, 1))
    result = area_difference(first, second, labels)
    assert result["difference"] == pytest.approx(kernel.mean())
    ends = kernel.mean() + 1.959964 * np.sqrt(variance) * np.array([-1, 1])
    np.testing.assert_allclose(result["difference_interval"], ends, atol=1e-6)
    # A unit that is the other, but for one example, differs by little, and surely.
    nearly = first.copy()
    nearly[0] += 0.25
    low, high = area_difference(nearly, first, labels)["difference_interval"]
    own = np.ptp(area_interval(first, labels))
    assert high - low < own / 4


@pytest.mark.parametrize(("high", "right"), [(1.0, 3), (-1.0, 0)])
def test_a_unit_that_separates_few_texts_is_not_known_to_separate_all(high, right):
    labels = np.array([1, 1, 1, 0, 0, 0, 0])
    wilson = binomtest(right, 3).proportion_ci(0.95, method="wilson")  # of the smaller class
    interval = area_interval(high * labels, labels)
    assert interval == pytest.approx([wilson.low, wilson.high], abs=1e-12)
    assert interval[0] < interval[1]
    low, high = area_interval(np.zeros(7), labels)  # of a constant unit
    assert low < 0.5 < high


def test_one_text_of_a_class_tells_next_to_nothing_of_the_others():
    """The variance of its fraction is set to the largest possible, 1/4; areas end at 0 and 1."""
    assert area_interval(np.arange(4.0), np.array([0, 0, 1, 0])) == [0.0, 1.0]


RANKED = Ranking(
    Cuts(np.zeros(4), np.ones(4, int)),
    accuracies=np.array([0.7, 0.9, 0.7, 0.8]),
    areas=np.array([0.9, 0.5, 0.6, 0.55]),
    weights=np.array([0.0, 0.0, 1.0, -3.0]),
)


def test_units_of_one_accuracy_stand_by_their_areas_and_the_first_are_described():
    orders = {name: order.tolist() for name, order in RANKED.orders().items()}
    assert orders == {"accuracy": [1, 3, 0, 2], "area": [0, 2, 3, 1], "weight": [3, 2, 1, 0]}
    val = Examples(np.array([[1.0], [-1.0]]).repeat(4, 1), np.array([1, 0]))
    values = np.array([3.0, 2, 0, 1, -1, -2])  # two of six are on the wrong side of 0
    test = Examples(values[:, None].repeat(4, 1), np.array([1, 1, 1, 0, 0, 0]))
    rows = describe_ranking(RANKED, val, test, top=1)["units"]
    assert [row["unit"] for row in rows] == [1, 3, 0]  # the most accurate first
    for row in rows:
        assert (row["val_accuracy"], row["test_accuracy"]) == (1.0, pytest.approx(2 / 3))
        assert row["test_area"] == pytest.approx(8 / 9)  # one of nine pairs is the wrong way round
        assert row["test_area_interval"] == area_interval(values, test.labels)


@pytest.mark.parametrize("polarity", [1, -1])
def test_the_unit_that_knows_the_label_is_first_in_every_ranking(polarity):
    train, val, test = (make_examples(300, seed, polarity) for seed in range(3))
    ranking = rank_units(train, fit_regression(train, val))
    for order in ranking.orders().values():
        assert order[0] == 3
        assert sorted(order) == list(range(8))
    described = describe_ranking(ranking, val, test, top=2)
    first = described["units"][0]
    assert (first["unit"], first["polarity"]) == (3, polarity)
    assert first["rank"] == {"accuracy": 1, "area": 1, "weight": 1}
    low, high = first["test_interval"]
    assert low < first["test_accuracy"] < high
    assert (first["test_area"] > 0.9) == (polarity > 0)
    assert len(described["weight"]) == len(described["train_area"]) == 8
