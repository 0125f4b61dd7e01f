"""Areas under ROC curves, against scikit-learn's, and the file that keeps them."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import load_areas, save_areas
from transfer.unit_auc import COLUMNS, per_feature_auc, per_unit_auc, per_unit_limit


def coarse(seed, count=41):
    """Values with many ties: one column rises with the class, one falls, one is constant."""
    rng = np.random.default_rng(seed)
    features = rng.integers(-3, 4, (count, 6)).astype(np.float32) / 4
    classes = rng.integers(0, 3, count)
    features[:, 4] = 0.25
    features[:, 1] += classes
    features[:, 5] -= classes
    return features, classes


def area(column, positive):
    return roc_auc_score(positive, column)


def test_areas_are_those_of_scikit_learn_measured_block_by_block():
    features, classes = coarse(3)
    positive = classes[:, None] == np.arange(3)
    expected = [[area(column, each) for each in positive.T] for column in features.T]
    np.testing.assert_allclose(per_feature_auc(features, positive), expected, atol=1e-12)
    one = per_feature_auc(features, positive[:, 1])
    np.testing.assert_allclose(one, np.array(expected)[:, 1], atol=1e-12)
    features, classes = coarse(3)
    areas = np.tile(per_feature_auc(features, classes == 1), COLUMNS)
    many = per_feature_auc(np.tile(features, COLUMNS), classes == 1)
    np.testing.assert_array_equal(many, areas)


def test_a_unit_separates_as_its_best_pooling_does_its_best_class():
    features, classes = coarse(5)  # two poolings of three units
    each = [
        max(max(a, 1 - a) for k in range(3) for a in [area(features[:, column], classes == k)])
        for column in range(6)
    ]
    expected = np.maximum(each[:3], each[3:])
    np.testing.assert_allclose(per_unit_auc(features, classes, 3), expected, atol=1e-12)
    several = np.eye(3, dtype=int)[classes]  # the same classes as labels of 0 and 1
    np.testing.assert_allclose(per_unit_auc(features, several, 3), expected, atol=1e-12)


def test_of_two_classes_the_area_says_which_end_means_the_last():
    """With two poolings, it is the area farther from one half."""
    features, classes = coarse(11)
    last = classes == 2
    each = np.array([area(column, last) for column in features.T]).reshape(2, 3)
    expected = [max(pair, key=lambda value: abs(value - 0.5)) for pair in each.T]
    areas = per_unit_auc(features, last.astype(int), 3)
    np.testing.assert_allclose(areas, expected, atol=1e-12)
    assert min(areas) < 0.5 < max(areas)
    np.testing.assert_allclose(per_unit_auc(-features, last.astype(int), 3), 1 - areas)


def test_classes_that_all_or_none_have_separate_nothing():
    features, classes = coarse(7)
    some = np.column_stack([classes == 1, np.ones_like(classes), np.zeros_like(classes)])
    expected = per_unit_auc(features, some[:, :1], 6)
    np.testing.assert_array_equal(per_unit_auc(features, some.astype(int), 6), expected)
    assert per_unit_auc(features, np.ones_like(some), 6).tolist() == [0.5] * 6


def test_areas_and_limits_are_read_as_they_were_written(tmp_path):
    features = np.linspace(-1, 3, 101)[:, None] * [1, -2, 0.5, 0.25]  # two poolings of two units
    np.testing.assert_allclose(per_unit_limit(features, 2), [2.8, 5.6])
    assert load_areas(tmp_path, 4) is None
    save_areas(tmp_path, np.array([0.5, 0.25, 1.0, 0.625]), np.arange(4))
    areas, limits = load_areas(tmp_path, 4)
    assert areas.tolist() == [0.5, 0.25, 1.0, 0.625]
    assert limits.tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match=r"areas.safetensors: tensor areas is"):
        load_areas(tmp_path, 5)
