"""Intervals against their definitions, and how often they hold what they should."""

import numpy as np
import pytest
from scipy.stats import binomtest

from experiments.intervals import Difference, fold_interval, separate_difference, wider
from transfer.intervals import draw_interval, over_draws, paired_difference
from transfer.regression import accuracy_interval


def test_the_difference_of_paired_proportions():
    # Of 50, 9 are right only before and 4 only after: variance (b + c - (b - c)^2 / n) / n^2.
    before = np.array([True] * 9 + [False] * 4 + [True] * 30 + [False] * 7)
    after = np.array([False] * 9 + [True] * 4 + [True] * 30 + [False] * 7)
    result = paired_difference(before, after)
    margin = 1.959964 * np.sqrt(13 - 25 / 50) / 50
    assert result["lost"] == pytest.approx(0.1)
    assert result["lost_interval"] == pytest.approx([0.1 - margin, 0.1 + margin], abs=1e-6)


@pytest.mark.parametrize(("lost", "same"), [(0, 9), (9, 0), (-9, 0)])
def test_pairs_that_are_all_alike_have_an_interval_and_no_point(lost, same):
    before = np.array([True] * (max(lost, 0) + same) + [False] * max(-lost, 0))
    after = np.array([lost < 0] * abs(lost) + [True] * same)
    result = paired_difference(before, after)
    # Agresti and Min's, from the counts: a half more of each of the four, two in all.
    only_before, only_after, n = max(lost, 0) + 0.5, max(-lost, 0) + 0.5, 11
    middle = (only_before - only_after) / n
    margin = 1.959964 * np.sqrt(only_before + only_after - (only_before - only_after) ** 2 / n) / n
    expected = np.clip([middle - margin, middle + margin], -1, 1)
    assert result["lost"] == lost / 9
    assert result["lost_interval"] == pytest.approx(expected, abs=1e-6)
    assert result["lost_interval"][0] < result["lost_interval"][1]


def test_the_difference_of_separate_proportions():
    # The first example of Newcombe (1998, Statistics in Medicine 17): 56 of 70 and 48 of 80.
    counts = ((56, 70), (48, 80))
    result = separate_difference(*((k / n, accuracy_interval(k / n, n)) for k, n in counts))
    assert result["difference"] == pytest.approx(0.2)
    assert result["difference_interval"] == pytest.approx([0.0524, 0.3339], abs=1e-4)


def test_draws_have_a_mean_a_band_and_intervals_and_one_draw_that_of_one_classifier():
    row = over_draws([0.6, 0.7, 0.8], tested=100)
    assert row["test_accuracy"] == pytest.approx(0.7)
    assert row["test_interval"] == accuracy_interval(0.7, 100)
    assert row["band"] == pytest.approx([0.62, 0.78])
    margin = 4.302653 * 0.1 / np.sqrt(3)  # Student's t, two degrees of freedom
    assert row["mean_interval"] == pytest.approx([0.7 - margin, 0.7 + margin], abs=1e-6)
    margin = 12.706205 * 0.1  # one degree of freedom; the mean's deviation is half of 0.2
    assert margin > 0.7
    assert over_draws([0.6, 0.8], tested=100)["mean_interval"] == [0.0, 1.0]
    assert over_draws([0.6], tested=100)["mean_interval"] is None
    wilson = binomtest(1489, 1821).proportion_ci(0.95, method="wilson")
    row = over_draws([1489 / 1821], tested=1821)
    assert row["band"] == [1489 / 1821] * 2  # a point, which says nothing of other texts
    assert row["draw_interval"] == pytest.approx([wilson.low, wilson.high], abs=1e-12)


def test_draws_and_texts_add_in_squares():
    low, high = accuracy_interval(0.7, 100)
    margin = 4.302653 * 0.1 * np.sqrt(4 / 3)  # Student's t, two degrees of freedom
    interval = draw_interval([0.6, 0.7, 0.8], 100)
    below, above = np.sqrt(margin**2 + (0.7 - low) ** 2), np.sqrt(margin**2 + (high - 0.7) ** 2)
    assert interval == pytest.approx([0.7 - below, min(0.7 + above, 1.0)], abs=1e-6)
    assert draw_interval([0.7] * 3, 100) == pytest.approx([low, high], abs=1e-12)
    assert draw_interval([0.1, 0.9], 50) == [0.0, 1.0]


def test_folds_that_differ_by_more_than_chance_widen_the_interval():
    wilson = accuracy_interval(0.6, 1000)
    folds = [0.5, 0.6, 0.7]
    margin = 4.302653 * 0.1 / np.sqrt(3)  # Student's t, two degrees of freedom
    assert fold_interval(folds, wilson) == pytest.approx([0.6 - margin, 0.6 + margin], abs=1e-6)
    assert fold_interval(folds, fold_interval(folds, wilson)) == fold_interval(folds, wilson)
    assert fold_interval([0.1, 0.9], wilson) == [0.0, 1.0]


@pytest.mark.parametrize("folds", [[0.6], [0.59, 0.6, 0.61], [0.6] * 10])
def test_folds_never_make_the_interval_smaller_than_that_of_the_examples(folds):
    wilson = accuracy_interval(0.6, 100)
    assert fold_interval(folds, wilson) == wilson


def test_a_lead_over_folds_has_the_wider_interval_of_pairs_and_of_folds():
    """The t interval of 0.1, 0.0 and 0.2 by hand: the deviation is 0.1, t(2) is 4.3027."""
    own, others = [0.7, 0.7, 0.8], [0.6, 0.7, 0.6]
    margin = 4.3027 * 0.1 / 3**0.5
    narrow, wide = Difference(0.11, (0.05, 0.17)), Difference(0.11, (-0.5, 0.7))
    lead = wider(narrow, own, others)
    assert lead.value == 0.11
    assert lead.interval == pytest.approx((0.11 - margin, 0.11 + margin), abs=1e-5)
    assert (narrow.word, lead.word) == ("ahead", "level")
    assert wider(wide, own, others) == wide
    assert wider(narrow, [0.7], [0.6]) == narrow
