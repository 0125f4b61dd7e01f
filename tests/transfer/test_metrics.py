"""Metrics against counting by hand."""

import numpy as np
import pytest

from transfer.metrics import describe_choices, resampled_sums
from transfer.regression import accuracy_interval

GENERATOR = np.random.default_rng(0)
TRUTH = (GENERATOR.random((30, 3)) > 0.6).astype(np.int64)
CHOICES = np.where(GENERATOR.random((30, 3)) > 0.3, TRUTH, 1 - TRUTH)
TRUTH[:2], CHOICES[:1] = 0, 0  # one text with no label and none chosen
CLASSES = ("a", "b", "c")


def counts(truth, choices):
    pairs = list(zip(truth.tolist(), choices.tolist(), strict=True))
    return [pairs.count(pair) for pair in ((1, 1), (0, 1), (1, 0), (0, 0))]


def scores(tp, fp, fn, tn):
    return {
        "f1": 2 * tp / (2 * tp + fp + fn),
        "precision": tp / (tp + fp),
        "recall": tp / (tp + fn),
        "jaccard": tp / (tp + fp + fn),
        "accuracy": (tp + tn) / (tp + fp + fn + tn),
        "mcc": (tp * tn - fp * fn) / ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5,
    }


def test_several_labels():
    metrics = describe_choices(TRUTH, CHOICES, CLASSES)
    columns = [counts(TRUTH[:, c], CHOICES[:, c]) for c in range(3)]
    each = [scores(*column) for column in columns]
    pooled = scores(*map(sum, zip(*columns, strict=True)))
    for name in ("f1", "precision", "recall", "jaccard"):
        assert metrics[f"{name}_macro"] == pytest.approx(np.mean([s[name] for s in each]))
        assert metrics[f"{name}_micro"] == pytest.approx(pooled[name])
    assert metrics["accuracy"] == pytest.approx(pooled["accuracy"])
    assert metrics["mcc"] == pytest.approx(pooled["mcc"])
    assert metrics["mcc_macro"] == pytest.approx(np.mean([s["mcc"] for s in each]))
    for name, column in zip(CLASSES, each, strict=True):
        row = metrics["per_class"][name]
        assert {key: row[key] for key in column} == pytest.approx(column)
        assert row["accuracy_interval"] == accuracy_interval(row["accuracy"], 30)
    positives = [metrics["per_class"][name]["positives"] for name in CLASSES]
    assert positives == [tp + fn for tp, _, fn, _ in columns]
    sets = [[set(np.flatnonzero(row)) for row in part] for part in (TRUTH, CHOICES)]
    jaccard = [len(t & c) / len(t | c) if t | c else 1.0 for t, c in zip(*sets, strict=True)]
    assert metrics["jaccard_samples"] == pytest.approx(np.mean(jaccard))
    whole = [t == c for t, c in zip(*sets, strict=True)]
    assert metrics["subset_accuracy"] == pytest.approx(np.mean(whole))


def test_one_label_each():
    truth, choices = TRUTH.argmax(1), CHOICES.argmax(1)
    metrics = describe_choices(truth, choices, CLASSES)
    assert metrics["accuracy"] == metrics["f1_micro"] == np.mean(truth == choices)
    each = [scores(*counts(truth == c, choices == c))["f1"] for c in range(3)]
    assert metrics["f1_macro"] == pytest.approx(np.mean(each))
    assert "jaccard_samples" not in metrics
    assert "jaccard_samples_interval" not in metrics
    assert metrics["accuracy_interval"] == accuracy_interval(metrics["accuracy"], 30)


def test_intervals_hold_the_value_and_shrink_with_texts():
    widths = []
    for times in (1, 16):
        truth, choices = (np.tile(part, (times, 1)) for part in (TRUTH, CHOICES))
        metrics = describe_choices(truth, choices, CLASSES)
        for name in ("accuracy", "f1_micro", "f1_macro", "jaccard_samples", "subset_accuracy"):
            low, high = metrics[f"{name}_interval"]
            assert low < metrics[name] < high
        low, high = metrics["f1_micro_interval"]
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.15)  # 16 times the texts


def test_draws_agree_with_the_normal_distribution_however_many_are_made_at_once(monkeypatch):
    values = np.arange(12.0).reshape(6, 2)
    expected = resampled_sums(values, seed=3)
    assert (resampled_sums(values, seed=4) != expected).any()
    monkeypatch.setattr("transfer.metrics.COUNTS_AT_ONCE", 7 * 6)
    np.testing.assert_array_equal(resampled_sums(values, seed=3), expected)
    monkeypatch.undo()
    truth = np.zeros((400, 2), np.int64)
    choices = np.repeat(np.arange(400)[:, None] % 2, 2, axis=1)
    low, high = describe_choices(truth, choices, ("a", "b"))["accuracy_interval"]
    # Each end is the 25th of 1000 draws: 0.085 standard errors, of the two three times 3 %.
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.09)


def test_an_absent_class_scores_zero_without_a_warning_and_no_label_where_none_is_right():
    metrics = describe_choices(np.array([0, 1, 0]), np.array([0, 1, 1]), CLASSES)
    assert metrics["per_class"]["c"]["f1"] == 0
    assert metrics["f1_macro"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    none = np.zeros((8, 3), np.int64)
    metrics = describe_choices(none, none, CLASSES)
    assert metrics["jaccard_samples"] == 1
    assert metrics["jaccard_samples_interval"] == accuracy_interval(1.0, 8)


@pytest.mark.parametrize("right", [0, 1])
def test_eight_texts_that_are_all_right_or_wrong_are_no_proof(right):
    """Every draw of them is alike, so draws would give an interval without width."""
    truth = np.eye(2, dtype=np.int64)[np.arange(8) % 2]
    several = describe_choices(truth, truth if right else 1 - truth, ("a", "b"))
    one = describe_choices(truth[:, 0], truth[:, 1 - right], ("a", "b"))
    for metrics, names in ((one, ("accuracy",)), (several, ("accuracy", "jaccard_samples"))):
        for name in (*names, "f1_micro", "f1_macro"):
            assert metrics[name] == right
            assert metrics[f"{name}_interval"] == accuracy_interval(right, 8)
