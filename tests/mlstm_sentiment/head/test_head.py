"""A head: its arithmetic, what comes back from the disk, and what is refused."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mlstm_sentiment.bounds import fill
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head import head_files
from mlstm_sentiment.head.head import Familiarity, Head, HeadUnit, ranked_units
from mlstm_sentiment.head.head_files import CONFIG_FILE, WEIGHTS_FILE, load_head, save_head
from mlstm_sentiment.head.steps import (
    STEPS,
    Affine,
    Batch,
    Calibration,
    LogOdds,
    Neutral,
    OneVsRest,
    Positive,
    PReLU,
    Probabilities,
    Sigmoid,
    Softmax,
    Standardize,
    Stars,
    Step,
    positive_log_odds,
)
from tests.support.heads import bag_of_ngrams, regression, star_head


@pytest.fixture
def saved(tmp_path):
    head = regression([2.0, -1.0, 0.0], 0.5, ("bad", "good"), 0, 1, "digest")
    save_head(tmp_path / "classifier", head)
    return tmp_path / "classifier", head


def several():
    network = (
        Standardize(np.linspace(-1, 1, 12), np.linspace(0.5, 2, 12)),
        Affine(np.random.default_rng(1).normal(size=(7, 12)), np.zeros(7)),
        PReLU(0.25),
        Affine(np.random.default_rng(2).normal(size=(6, 7)), np.arange(6) / 6),
        Probabilities(3, exclusive=False),
        LogOdds(),
    )
    return Head(
        classes=("joy", "fear", "love"),
        steps=(*network, Sigmoid()),
        several_labels=True,
        thresholds=(0.4, 0.5, 0.6),
    )


HEADS = {
    "two classes": lambda: regression(np.arange(12), 0.5, unit=3, polarity=-1, digest="digest"),
    "three classes": lambda: regression(
        np.arange(72).reshape(3, 24), np.ones(3), ("1", "2", "3"), pooling=("last", "mean")
    ),
    "several labels": several,
    "stars": lambda: star_head(familiarity=Familiarity(bits_per_character=2, bits=9)),
    "stars, words, neutral": lambda: star_head(
        ngrams=bag_of_ngrams(range(-32, 32), 0.01), neutral=Neutral(2, 0.8, 0.6), thresholds=(0.3,)
    ),
}


@pytest.mark.parametrize("make", HEADS.values(), ids=HEADS)
def test_it_is_the_same_after_saving_and_loading(tmp_path, make):
    head, folder = replace(make(), model_digest="digest"), tmp_path / "classifier"
    save_head(folder, head, {"made": "here"})
    loaded = load_head(folder, hidden_size=12)
    description = json.loads((folder / CONFIG_FILE).read_text())
    assert description["format_version"] == 8
    assert description["origin"] == {"made": "here"}
    features = np.random.default_rng(0).normal(size=(9, head.features)).astype(np.float32)
    texts = [f"good thing {n}" for n in range(9)]
    for one, other in zip(
        head.answer(features, texts), loaded.answer(features, texts), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    for name in (
        *("classes", "model_digest", "state", "pooling", "several_labels", "familiarity"),
        *("thresholds", "unsure", "own_unit", "has_neutral", "has_stars", "uses_words"),
    ):
        assert getattr(loaded, name) == getattr(head, name), name
    save_head(folder, replace(head, unit=HeadUnit(1, -1)))
    assert (load_head(folder, 12).neuron, load_head(folder, 12).polarity) == (1, -1)


def test_a_new_kind_of_step_needs_one_class(tmp_path, monkeypatch):
    monkeypatch.setattr("mlstm_sentiment.head.steps.STEPS", STEPS.copy())

    @dataclass(frozen=True, eq=False)
    class Square(Step, name="square"):
        def map(self, values):
            return values**2

    steps = Affine(np.ones((1, 3)), [0.0]), Square(), Sigmoid()
    head = Head(classes=("no", "yes"), steps=steps, model_digest="digest")
    save_head(tmp_path, head)
    loaded = load_head(tmp_path, 3)
    assert loaded.answer(np.array([[1, 2, -5]], np.float32)).scores == [4]


def test_probabilities_are_the_logistic_of_the_odds(saved):
    features = np.array([[0, 0, 9], [1, 0, 0], [0, 1, 0], [1e4, 0, 0], [0, 1e4, 0]], np.float32)
    expected = [1 / (1 + np.exp(-odds)) for odds in (0.5, 2.5, -0.5)]
    probabilities = saved[1].probabilities(features)
    assert probabilities[:3] == pytest.approx(expected, rel=1e-12)
    assert probabilities[3] == 1
    assert 0 < probabilities[4] < 1e-300


def test_the_unit_may_have_its_weight_in_another_pooling(tmp_path):
    pooled = {"pooling": ("last", "mean"), "neuron_pooling": "mean"}
    save_head(tmp_path, regression(np.arange(6), 0.5, ("bad", "good"), 2, 1, "digest", **pooled))
    loaded = load_head(tmp_path, hidden_size=3)
    assert (loaded.neuron, loaded.neuron_column) == (2, 5)
    assert loaded.kind.poolings == ("last", "mean")
    np.testing.assert_allclose(loaded.influence, [[0 + 3, 1 + 4, 2 + 5]], atol=1e-9)


def test_units_are_ranked_by_their_largest_influence_on_any_class():
    influence = np.array([[0.0, -3.0, 0.5, 0.0, 1.0], [0.0, 1.0, -4.0, 0.0, 1.0]])
    assert ranked_units(influence) == [2, 1, 4]


def test_its_influence_is_the_slope_of_every_class_at_the_mean_text():
    head, step = several(), 1e-4
    center, scale = head.steps[0].center.astype(float), head.steps[0].scale.astype(float)
    up, down = (head.probabilities(center + side * np.diag(scale)) for side in (step, -step))
    np.testing.assert_allclose(head.influence, (up - down).T / (2 * step), rtol=1e-3, atol=1e-6)
    assert head.neuron == np.abs(head.influence).max(0).argmax()


def test_the_neuron_of_stars_adds_the_poolings_of_a_unit():
    def with_weights(weight):
        steps = star_head().steps
        return replace(star_head(), steps=(steps[0], Affine(weight, np.zeros(5)), *steps[2:]))

    weight = np.zeros((5, 24))
    weight[1, 7] = 3  # of two stars, unit 7 at the end
    weight[4, 8] = 2  # of five stars, unit 8 at the end
    head = with_weights(weight)
    assert (head.neuron, head.neuron_column, head.polarity) == (7, 7, -1)
    weight[4, 12 + 8] = 2  # and its mean, which adds to it
    head = with_weights(weight)
    assert (head.neuron, head.neuron_column, head.polarity) == (8, 8, 1)


def test_three_stars_are_neutral_and_the_others_symmetric():
    weights = (0.0, 0.0, 0.5, 1.0, 1.0)
    odds = positive_log_odds(np.eye(5), weights)
    assert odds[2] == 0
    assert (odds[:2] < -10).all()
    np.testing.assert_allclose(odds, -odds[::-1])
    mixed = positive_log_odds(np.array([[0.1, 0.1, 0.2, 0.3, 0.3]]), weights)
    np.testing.assert_allclose(mixed, np.log(0.7 / 0.3))


def test_what_stars_note_on_the_way():
    each = np.array([[0.1, 0.1, 0.2, 0.3, 0.3], [0.0, 0.0, 1.0, 0.0, 0.0]])
    batch = Neutral(2, slope=2.0, offset=1.0).apply(Stars().apply(Batch(values=each)))
    np.testing.assert_allclose(batch.stars, each @ [1, 2, 3, 4, 5])
    np.testing.assert_allclose(batch.neutral[0], 1 / (1 + np.exp(-2 * np.log(0.25) - 1)))
    assert 0.99999 < batch.neutral[1] <= 1


def test_the_words_move_the_log_odds_of_five_stars_to_one():
    bag = bag_of_ngrams(np.random.default_rng(0).integers(-127, 128, 64), 0.01)
    texts, features = ["good", "bad news"], np.zeros((2, 24), np.float32)
    head = star_head(ngrams=bag)
    assert head.uses_words
    before = np.exp(star_head().steps[1].map(star_head().steps[0].map(features.astype(float))))
    moved = before * np.exp(np.outer(bag.log_odds(texts), [-0.5, -0.5, 0, 0.5, 0.5]))
    moved /= moved.sum(1, keepdims=True)
    answer = head.answer(features, texts)
    np.testing.assert_allclose(answer.stars, moved @ [1, 2, 3, 4, 5], rtol=1e-6)
    odds = 0.5 * positive_log_odds(moved, (0, 0, 0.5, 1, 1)) + 0.25
    np.testing.assert_allclose(answer.scores, odds, rtol=1e-6)
    with pytest.raises(InputError, match="uses the words of the texts"):
        head.answer(features)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "b", "c"]}, "1 scores for 3 classes"),
        ({"classes": ["a", "a"]}, "different names"),
        ({"classes": ["a"]}, "two or more different names"),
        ({"classes": {"a": 0, "b": 1}}, "classes is .*; it must be a list, each text"),
        ({"format_version": 9}, "format_version 9 is newer"),
        ({"format_version": 7}, "format 7 is older than 8; fit it again with scripts/transfer.py"),
        ({"features": {"state": "cell", "pooling": ["sum"]}}, r"pooling is \('sum',\)"),
        ({"features": {"state": "both", "pooling": ["last"]}}, "state is 'both'"),
        ({"features": {"state": "cell", "pooling": ["last", "mean"]}}, "3 features for 2 pooling"),
        ({"thresholds": [1.5]}, "thresholds is .*; it must be at least zero and at most 1"),
        ({"thresholds": [0.5, 0.5]}, "2 thresholds for 2 classes"),
        ({"unsure": [0.7, 0.2]}, "the lower one comes first"),
        ({"neuron": {"index": 3, "polarity": 1}}, "neuron.index is 3; it must be below 3"),
        ({"neuron": {"index": 0, "polarity": 2}}, "neuron.polarity is 2"),
        ({"neuron": {"index": 0, "polarity": 1, "pooling": "max"}}, "neuron.pooling is 'max'"),
        ({"steps": []}, "belongs to none of 0 steps"),
        ({"steps": [{"step": "affine"}]}, "must be a link"),
        ({"steps": [{"step": "trees"}, {"step": "sigmoid"}]}, "step is 'trees'; known: standard"),
        ({"steps": [{"step": "prelu"}, {"step": "sigmoid"}]}, "tensors .* of step prelu"),
        ({"steps": [{"step": "affine", "rank": 3}, {"step": "sigmoid"}]}, "unknown key"),
        ({"steps": [{"step": "affine", "bias": [1]}, {"step": "sigmoid"}]}, "unknown key bias"),
        ({"familiarity": {"bits": "x", "bits_per_character": 1.0}}, "not a description"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(saved, change, message):
    path = saved[0] / CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=message):
        load_head(saved[0], hidden_size=3)


def test_a_head_for_another_number_of_units_is_refused(saved):
    with pytest.raises(InputError, match="takes 3 units; the model has 4"):
        load_head(saved[0], hidden_size=4)
    with pytest.raises(InputError, match="4 features; the head takes 3"):
        saved[1].answer(np.zeros((1, 4), np.float32))


def test_weights_that_are_damaged_are_refused(tmp_path):
    save_head(tmp_path, star_head(2, ngrams=bag_of_ngrams(range(8), 0.1), model_digest="digest"))
    forget_digest(tmp_path)
    whole = load_file(tmp_path / WEIGHTS_FILE)
    for name, value, message in (
        ("1.weight", torch.full((5, 4), torch.nan), "1.weight holds NaN or infinity"),
        ("0.scale", torch.zeros(4), "scale, which divides the features"),
        ("0.scale", torch.ones(3), r"shapes \(\(4,\), \(3,\)\)"),
        ("1.weight", torch.ones(5, 3), "step affine does not fit 4 columns"),
        ("1.bias", torch.ones(5, dtype=torch.int8), "not floating-point numbers"),
        ("3.weights", torch.ones(8), "not int8"),
        ("9.more", torch.ones(1), "belongs to none of 8 steps"),
    ):
        save_file({**whole, name: value}, tmp_path / WEIGHTS_FILE)
        with pytest.raises(InputError, match=message):
            load_head(tmp_path, hidden_size=2)
    (tmp_path / WEIGHTS_FILE).write_bytes(b"no weights")
    with pytest.raises(InputError, match="damaged or cut short"):
        load_head(tmp_path, hidden_size=2)


def forget_digest(folder):
    """Leave a head as earlier versions wrote it."""
    description = json.loads((folder / CONFIG_FILE).read_text())
    del description["arrays_sha256"]
    (folder / CONFIG_FILE).write_text(json.dumps(description))


def test_half_precision_is_read(saved):
    tensors = load_file(saved[0] / WEIGHTS_FILE)
    save_file(
        {name: tensor.bfloat16() for name, tensor in tensors.items()}, saved[0] / WEIGHTS_FILE
    )
    forget_digest(saved[0])
    assert load_head(saved[0], hidden_size=3).steps[0].weight.tolist() == [[2, -1, 0]]


def test_half_of_a_new_head_is_no_head(saved, monkeypatch):
    """The disk is full after the first of its two files."""
    monkeypatch.setattr(head_files, "write_json", lambda *_: exhausted())
    with pytest.raises(OSError, match="full"):
        save_head(saved[0], regression(np.ones(3), 0.0, digest="digest"))
    with pytest.raises(InputError, match=r"another classifier than classifier\.json"):
        load_head(saved[0], hidden_size=3)


def exhausted():
    raise OSError("the disk is full")


def test_a_head_of_no_model_is_not_saved(tmp_path):
    head = regression(np.ones(3), 0.0)
    with pytest.raises(InputError, match="does not say which model it is for"):
        save_head(tmp_path / "mine", replace(head, model_digest=""))
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("kind", [Familiarity, Calibration])
def test_whole_numbers_of_a_description_become_floats(kind):
    """A file may hold 10^30 without a point, by which NumPy cannot multiply."""
    names = ["bits_per_character", "bits"] if kind is Familiarity else ["slope", "offset"]
    filled = fill(kind, dict.fromkeys(names, 10**30), "a.json")
    values = [getattr(filled, name) for name in names]
    assert values == [1e30, 1e30]
    assert set(map(type, values)) == {float}


@pytest.mark.parametrize("make", HEADS.values(), ids=HEADS)
def test_no_text_has_no_answers(make):
    answer = make().answer(np.zeros((0, make().features), np.float32), [])
    assert len(answer.probabilities) == len(answer.scores) == 0


def test_extreme_scores_stay_probabilities():
    extreme = np.array([[1e6, 0, -1e6]] * 2, np.float32)
    for link in (OneVsRest(), Softmax()):
        head = regression(np.eye(3), np.zeros(3), ("a", "b", "c"), link=link)
        probabilities = head.probabilities(extreme)
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(1), 1)
    for steps in ((Probabilities(2), Positive((0.0, 1.0))), (Probabilities(2, False), LogOdds())):
        values = np.array([[1e6, -1e6], [-1e6, 1e6]])
        for step in steps:
            values = step.map(values)
        assert np.isfinite(values).all()


def test_the_threshold_travels_and_decides(saved, tmp_path):
    _, head = saved
    save_head(tmp_path / "strict", head.with_threshold(0.8))
    loaded = load_head(tmp_path / "strict", hidden_size=3)
    assert loaded.threshold == 0.8
    assert loaded.choose(np.array([0.4, 0.7, 0.8, 0.9])).tolist() == [0, 0, 0, 1]
    assert head.choose(np.array([0.4, 0.5, 0.7])).tolist() == [0, 0, 1]
    at = np.array([0.5, 0.75, np.nextafter(0.75, 1)])
    assert head.with_threshold(0.75).choose(at).tolist() == [0, 0, 1]
    assert several().choose(np.array([[0.5, 0.5, 0.5]])).tolist() == [[1, 0, 0]]


def test_the_range_of_doubt_moves_with_the_threshold(saved):
    assert saved[1].unsure == (0.4, 0.6)
    assert saved[1].with_threshold(0.9).unsure == pytest.approx((6 / 7, 27 / 29))
    own = star_head(doubt=(0.4, 0.7))
    assert replace(own, thresholds=(0.8,)).unsure == (0.4, 0.7)
    assert own.with_threshold(0.75).unsure == pytest.approx((2 / 3, 7 / 8))
    assert own.with_threshold(0.5).unsure == (0.4, 0.7)
    for threshold in (0.0, 0.1, 0.92, 1.0):
        low, high = own.with_threshold(threshold).unsure
        assert 0 < low < high < 1  # so that both sides stay possible
