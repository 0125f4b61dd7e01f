"""Draws of labels, and what is learned from few of them."""

import numpy as np
import pytest

from data_utils.labelled import LabelledSet
from tests.transfer.test_regression import make_examples
from transfer.neuron.label_efficiency import label_counts, label_efficiency, stratified_order


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_every_beginning_of_a_draw_has_the_shares(share):
    labels = (np.arange(400) < 400 * share).astype(np.int64)
    order = stratified_order(labels, seed=1)
    assert sorted(order) == list(range(400))
    assert set(labels[order[:2]]) == {0, 1}
    for count in range(2, 401):
        assert abs(labels[order[:count]].sum() - share * count) <= 2
    again = stratified_order(labels, seed=1)
    np.testing.assert_array_equal(order, again)
    assert (order != stratified_order(labels, seed=2)).mean() > 0.9


def test_counts_reach_from_ten_to_all():
    assert label_counts(6920) == [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 6920]


def test_a_known_unit_needs_fewer_labels_than_one_to_be_found():
    examples = [make_examples(count, seed) for seed, count in enumerate((120, 80, 200))]
    for part in examples:  # weaker, so that which labels are drawn makes a difference
        part.features[:, 3] -= part.labels * 2 - 1
    sets = [
        LabelledSet([("good " if y else "bad ") + str(i % 7) for i, y in enumerate(e.labels)],
                    e.labels, ("0", "1"))
        for e in examples
    ]  # fmt: skip
    found = label_efficiency(sets, examples, 3, counts=[8, 120], draws=4)
    curves = found["curves"]
    assert set(curves) == {"all_units", "known_unit", "found_unit", "tfidf"}
    assert [len(point["accuracies"]) for point in curves["all_units"]] == [4, 1]
    few, _ = curves["known_unit"]
    assert few["test_accuracy"] >= curves["found_unit"][0]["test_accuracy"]
    assert few["band"][0] <= few["test_accuracy"] <= few["band"][1]
    for rows in curves.values():
        assert rows[-1]["test_accuracy"] > 0.75
        assert rows[-1]["mean_interval"] is None
        low, high = rows[-1]["draw_interval"]
        assert low <= rows[-1]["test_accuracy"] <= high > low
    assert len(set(curves["all_units"][0]["accuracies"])) > 1  # the draws differ
