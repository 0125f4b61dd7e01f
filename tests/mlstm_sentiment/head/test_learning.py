"""A head that learns from corrections: better where it can be, careful where it knows little."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.answers import named_answers, probability_of_each
from mlstm_sentiment.head.head import Familiarity, Head
from mlstm_sentiment.head.head_files import load_head, parts_of, save_head
from mlstm_sentiment.head.learning import Corrections, learn
from mlstm_sentiment.head.steps import Affine, Neutral, Sigmoid, Softmax
from tests.support.heads import bag_of_ngrams, regression, star_head

UNITS = 12
WEIGHTS = np.random.default_rng(1).normal(size=(3, UNITS))


def stars(ngrams=None):
    return star_head(
        ngrams=ngrams,
        neutral=Neutral(2, slope=0.7, offset=-0.2),
        familiarity=Familiarity(bits_per_character=2.0, bits=30.0),
        model_digest="digest",
    )


THRESHOLD_AND_NEUTRAL = "stars, neutral and a threshold"
HEADS = {
    "two classes": regression(WEIGHTS[0], 0.25),
    "two classes and a threshold": regression(WEIGHTS[0]).with_threshold(0.3),
    "stars and neutral": stars(),
    THRESHOLD_AND_NEUTRAL: stars().with_threshold(0.9),
    "n-grams": stars(bag_of_ngrams(np.arange(-48, 49), 0.01)),
    "three classes": regression(WEIGHTS, np.zeros(3), ("a", "b", "c"), 4),
    "softmax": regression(WEIGHTS, np.zeros(3), ("a", "b", "c"), 4, link=Softmax()),
}
heads = pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)


def drawn(head, count, seed=0, sharpness=4.0):
    """Features, texts, and labels that another head than this one would give."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, head.features)).astype(np.float32)
    names = named_answers(head)
    scores = features @ np.random.default_rng(2).normal(size=(head.features, len(names)))
    chances = np.exp(sharpness * scores / head.features**0.5)
    chances /= chances.sum(1, keepdims=True)
    right = np.array([rng.choice(len(names), p=row) for row in chances])
    texts = [f"text number {n}" for n in range(count)]
    return features, texts, Corrections(texts, [names[row] for row in right], Counter()), chances


def of_each(head, features, texts):
    return probability_of_each(head, head.answer(features, texts))


@heads
def test_it_learns_and_the_saved_head_answers_as_it_did(head, tmp_path):
    features, texts, corrections, _ = drawn(head, 400)
    learned = learn(head, features, corrections, texts)
    assert learned.is_better
    assert learned.losses[:, 1].mean() < learned.losses[:, 0].mean()
    new = replace(learned.head, model_digest="digest")
    assert named_answers(new) == named_answers(head)
    for name in ("familiarity", "state", "pooling", "has_stars", "own_unit"):
        assert getattr(new, name) == getattr(head, name), name
    save_head(tmp_path / "mine", new)
    loaded = load_head(tmp_path / "mine", head.units)
    np.testing.assert_array_equal(of_each(loaded, features, texts), of_each(new, features, texts))
    assert np.isfinite(loaded.influence).all()
    # What cross-validation said holds for other rows.
    others, their_texts, expected, _ = drawn(head, 2000, seed=9)
    names = named_answers(head)
    right = [names.index(label) for label in expected.labels]
    hits = of_each(new, others, their_texts).argmax(1) == right
    assert hits.mean() == pytest.approx(learned.after.mean(), abs=0.07)


@heads
def test_learning_repeats_itself_and_adds_to_what_was_learned(head):
    features, texts, corrections, _ = drawn(head, 200)
    first, again = (learn(head, features, corrections, texts) for _ in range(2))
    assert parts_of(first.head)[1] == parts_of(again.head)[1]
    for name, array in parts_of(first.head)[0].items():
        np.testing.assert_array_equal(array, parts_of(again.head)[0][name])
    more, their_texts, others, _ = drawn(head, 200, seed=5)
    second = learn(first.head, more, others, their_texts)
    assert len(second.head.steps) == len(first.head.steps)
    assert second.losses[:, 0].mean() < first.losses[:, 0].mean()
    assert second.losses[:, 1].mean() < second.losses[:, 0].mean() + 0.02


@heads
@pytest.mark.parametrize("share", [0.9, 0.6, None])
def test_random_labels_are_refused(head, share):
    """Even if one of them is frequent, so that always giving it would be right more often."""
    count = len(named_answers(head))
    chances = None if share is None else [share, *([(1 - share) / (count - 1)] * (count - 1))]
    features, texts, corrections, _ = drawn(head, 100)
    accepted = 0
    for seed in range(12):
        labels = np.random.default_rng(seed).choice(named_answers(head), 100, p=chances).tolist()
        accepted += learn(head, features, corrections._replace(labels=labels), texts).is_better
    assert accepted <= 1


def test_few_rows_change_little_of_what_is_known():
    head = HEADS["stars and neutral"]
    features, texts, _, _ = drawn(head, 1030)
    names = named_answers(head)
    said = of_each(head, features, texts).argmax(1)
    own = Corrections(texts[:30], [names[row] for row in said[:30]], Counter())
    learned = learn(head, features[:30], own, texts[:30])
    assert not learned.is_better  # nothing was wrong
    after = of_each(learned.head, features[30:], texts[30:]).argmax(1)
    assert (after == said[30:]).mean() > 0.9


@pytest.mark.parametrize("name", ["two classes", "stars and neutral", THRESHOLD_AND_NEUTRAL])
def test_the_offset_is_how_far_a_mean_of_sentiment_is_off(name):
    head = HEADS[name]
    features, texts, corrections, _ = drawn(head, 1000)
    sentiment = 2 * head.answer(features, texts).probabilities - 1
    right = [{"positive": 1, "negative": -1}.get(label, 0) for label in corrections.labels]
    learned = learn(head, features, corrections, texts)
    mean, low, high = learned.offset
    assert mean == pytest.approx(sentiment.mean() - np.mean(right))
    assert low < mean < high
    # What was learned is not off.
    again = learn(learned.head, features, corrections, texts)
    assert again.offset[0] == pytest.approx(0, abs=0.03)
    few = Corrections(texts[:99], corrections.labels[:99], Counter())
    assert learn(head, features[:99], few, texts[:99]).offset is None


@pytest.mark.parametrize("name", ["two classes", "stars and neutral"])
def test_probabilities_are_calibrated(name):
    head = HEADS[name]
    features, texts, corrections, _ = drawn(head, 1000, sharpness=2.0)
    learned = learn(head, features, corrections, texts)
    others, their_texts, _, chances = drawn(head, 4000, seed=3, sharpness=2.0)
    for given, expected in zip(
        of_each(learned.head, others, their_texts).T, chances.T, strict=True
    ):
        edges = np.quantile(given, np.linspace(0, 1, 9)[1:-1])
        bins = np.searchsorted(edges, given)
        off = [given[bins == n].mean() - expected[bins == n].mean() for n in range(8)]
        assert np.abs(off).mean() < 0.05


def test_without_neutral_rows_neutral_becomes_rarer_and_stays():
    head = HEADS["stars and neutral"]
    features, texts, corrections, _ = drawn(head, 300)
    rows = [row for row, label in enumerate(corrections.labels) if label != "neutral"]
    kept = Corrections(
        [texts[row] for row in rows], [corrections.labels[row] for row in rows], Counter()
    )
    both = learn(head, features[rows], kept, kept.texts).head
    sides = learn(head, features[rows], kept, kept.texts, sides=True).head
    before, after, untouched = (
        each.answer(features, texts).neutral for each in (head, both, sides)
    )
    assert 0 < after.mean() < before.mean() / 2
    np.testing.assert_allclose(untouched, before)


PLAIN = [(f"row {n}", f"text {n}", ("positive", "negative")[n % 2]) for n in range(30)]


@pytest.mark.parametrize(
    ("rows", "left_out"),
    [
        ([], {}),
        ([("row 31", "text 1", "Negative ")], {"repeated": 1}),
        ([("row 31", None, "positive"), ("row 32", "x", "no answer")], {"no answer": 2}),
        ([("row 31", "x", "UNSURE"), ("", "y", "unfamiliar")], {"unsure": 1, "unfamiliar": 1}),
        ([("row 31", "x", "neutral")], {"neutral": 1}),
        (
            [("row 31", "x", "positive"), ("row 32", "x", "negative")],
            {"repeated": 1, "with two different labels": 1},
        ),
    ],
)
def test_rows_that_say_nothing_are_left_out_and_counted(rows, left_out):
    corrections = Corrections.of([*PLAIN, *rows], ("negative", "positive"))
    assert corrections.left_out == left_out
    assert corrections.texts == [text for _, text, _ in PLAIN]


def test_what_a_head_has_learned_from_tells_nothing_when_it_learns_again(tmp_path):
    """Labels by chance: known from before, half of them would seem to be right after."""
    draw = np.random.default_rng(2)
    rows = [(f"row {n}", f"text {n}", ("a", "b")[draw.integers(2)]) for n in range(90)]
    head = Head(classes=("a", "b"), steps=(Affine(np.ones((1, 4)), np.zeros(1)), Sigmoid()))
    head = replace(head, model_digest="digest")
    features = draw.normal(size=(90, 4)).astype(np.float32)
    first = learn(head, features[:60], Corrections.of(rows[:60], head.classes))
    save_head(tmp_path, first.head)
    kept = load_head(tmp_path, 4)
    assert kept.learned == first.head.learned
    assert len(kept.learned) == 60
    corrections = Corrections.of(rows, head.classes, kept.learned)
    assert corrections.texts == [text for _, text, _ in rows[60:]]
    assert corrections.left_out == {"learned before": 60}
    second = learn(kept, features[60:], corrections)
    assert len(second.head.learned) == 90
    with pytest.raises(InputError, match=r"0 rows .*\(none\), 90 learned before; give"):
        Corrections.of(rows, head.classes, second.head.learned)


def test_a_class_that_has_the_name_of_an_abstention_is_learned():
    rows = [(place, text, ("neutral", "Good")[n % 2]) for n, (place, text, _) in enumerate(PLAIN)]
    corrections = Corrections.of(rows, ("Good", "Neutral"))
    assert corrections.labels == ["Neutral", "Good"] * 15
    assert not corrections.left_out


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([*PLAIN, ("row 31", "x", "good")], "row 31: label is 'good'; the answers are negative, "),
        (PLAIN[:29], "29 rows to learn from"),
        ([(place, text, "positive") for place, text, _ in PLAIN], "with labels positive; give 30"),
        ([], "0 rows to learn from, with labels \\(none\\)"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(rows, error):
    with pytest.raises(InputError, match=error):
        Corrections.of(rows, ("negative", "positive"))


def test_a_correction_without_its_weights_is_refused():
    head = HEADS["two classes"]
    features, texts, corrections, _ = drawn(head, 100)
    learned = learn(head, features, corrections, texts).head
    with pytest.raises(InputError, match="correction needs a step learned"):
        replace(learned, steps=learned.steps[1:]).answer(features)
