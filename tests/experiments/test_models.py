"""What the shipped model may read, what it knows while it learns, and whether it recites."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from data_utils.corpus import open_corpus
from data_utils.labelled import read_labelled_sets
from data_utils.preparation.preparation import Preparation, prepare_corpus
from data_utils.synthetic import synthetic_reviews
from experiments.models import memorization, near_copies, select_reviews, ship
from experiments.models.overlap import RUN, SHORTEST, HeldOut
from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.files.shipped import SHIPPED_MODELS
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.split import encode_split
from model.inference.features import read
from model.inference.weights import LoadedModel
from tests.support.heads import regression
from tests.support.runs import done, run, small_run
from transfer.experiment import run_transfer
from transfer.regression import Examples

WORDS = [f"word{number}" for number in range(13)]


def sentence(count, begin=0):
    return " ".join(WORDS[begin : begin + count])


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        (f"Well: {sentence(RUN)}.", True),
        (f"Well: {sentence(RUN, 1).upper()}!", True),
        (f"Well, {sentence(RUN - 1)} and so on.", False),
        ("", False),
    ],
)
def test_a_run_of_words_gives_a_held_out_text_away(text, shared):
    assert HeldOut([sentence(RUN + 1)]).shares_with(text) is shared


def test_a_short_held_out_text_is_looked_for_whole():
    held_out = HeldOut([sentence(SHORTEST), sentence(SHORTEST - 1, 6)])
    assert held_out.shares_with(f"He said: {sentence(SHORTEST)}, and left")
    assert not held_out.shares_with(sentence(SHORTEST - 1))
    assert not held_out.shares_with(sentence(SHORTEST - 1, 6))  # too short to be kept out


def test_near_copies_are_counted_and_scored_apart(small_model):
    split = encode_split(["a copy.", "another review", "a third"], text_profile("raw"))
    is_copy = np.array([True, False, False])
    counts = near_copies.counted(split, is_copy)
    sizes = np.diff(split.offsets)
    assert (counts["reviews"], counts["copies"]) == (3, 1)
    assert (counts["characters"], counts["characters_of_copies"]) == (sizes.sum(), sizes[0])
    loaded = LoadedModel(small_model, text_profile("raw"), Path())
    bits = near_copies.scored(loaded, split, is_copy)
    (costs,) = read(small_model, [split.tokens[: sizes[0]]], bits=True).token_bits
    assert bits["bits_of_copies"] == pytest.approx(costs.sum() / sizes[0], rel=1e-5)
    assert near_copies.scored(loaded, split, ~is_copy)["bits_of_others"] == bits["bits_of_copies"]
    without_copies = near_copies.scored(loaded, split, np.zeros(3, bool))
    assert without_copies["bits_of_copies"] is None
    assert without_copies["bits_of_others"] > 0


@pytest.mark.parametrize(
    ("title", "first"),
    [("none", "It broke."), ("first", "Bad | It broke."), ("last", "It broke. | Bad")],
)
def test_reviews_are_selected_by_source_and_apart_from_the_held_out(tmp_path, title, first):
    rows = [
        {"reviewText": "It broke.", "summary": "Bad", "source": "fine_foods"},
        {"reviewText": "It works.", "summary": None, "source": "fine_foods"},
        {"reviewText": "Yes.", "summary": "5-Star quality", "source": "aws_us_reviews"},
        {"reviewText": "Fine.", "source": "aws_us_reviews"},
        {"reviewText": f"As they say, {sentence(RUN)}", "source": "fine_foods"},
    ]
    (tmp_path / "reviews.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "test.csv").write_text(f"label,text\n1,{sentence(RUN)}\n")
    process = run(
        *("-m", "experiments.models.select_reviews", tmp_path / "reviews.jsonl"),
        *("--held-out", tmp_path / "test.csv", "--output", tmp_path / "out.jsonl"),
        *("--title", title),
    )
    done(process)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    assert texts == [first, "It works."]
    report = json.loads((tmp_path / "out.report.json").read_text())
    assert "select_reviews" in report["origin"]["command"]
    assert report["titles"] == {"with a title": 1, "whose title names stars": 0}
    assert report["reviews"] == {
        "kept: fine_foods": 2,
        "left out: its licence forbids redistribution": 2,
        "left out: shares wording with a held-out text": 1,
    }


def test_reviews_of_a_held_out_corpus_are_left_out(tmp_path, write_reviews):
    corpus = tmp_path / "corpus"
    prepare_corpus([write_reviews("reviews.jsonl", 40)], corpus, Preparation(split=(8, 1, 1)))
    splits = open_corpus(corpus).splits
    held_out = HeldOut(select_reviews.held_out_texts((), (corpus,)))
    of = {name: list(near_copies.reviews_of(splits[name])) for name in ("train", "valid", "test")}
    assert all(held_out.shares_with(text) for text in of["valid"] + of["test"])
    assert not all(held_out.shares_with(text) for text in of["train"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert run(*small_run(folder, 12)).returncode == 0
    return folder


def test_what_is_shipped_tells_sentiment_as_a_transfer_does(trained, tmp_path):
    paths = {}
    for name, count in (("train", 200), ("val", 100)):
        rows = (json.dumps(r._asdict()) for r in synthetic_reviews(count, seed=count))
        paths[name] = tmp_path / f"{name}.jsonl"
        paths[name].write_text("\n".join(rows))
    words = [trained, "--name", "small", "--work", tmp_path / "work", "--output", tmp_path / "out"]
    words += ["--train", paths["train"], "--val", paths["val"], "--classes", "bad", "good"]
    done(run("-m", "experiments.models.ship", *words))
    folder = tmp_path / "out" / "small"
    assert (folder / "LICENSE").read_text() == (SHIPPED_MODELS / "LICENSE").read_text()
    origin = json.loads((folder / "classifier" / "classifier.json").read_text())["origin"]
    assert origin["data"]["train"]["examples"] == 200
    assert "--name small" in origin["command"]
    shipped = SentimentClassifier.from_pretrained(folder)
    sets = read_labelled_sets([paths["train"], paths["val"], paths["val"]])
    assert [part["sha256"] for part in origin["data"].values()] == [s.digest for s in sets[:2]]
    results = run_transfer(shipped.loaded, sets, tmp_path / "transfer")
    own, transferred = (
        shipped.fitted_,
        SentimentClassifier.from_pretrained(folder, tmp_path / "transfer").fitted_,
    )
    np.testing.assert_array_equal(own.steps[0].weight, transferred.steps[0].weight)
    assert own.threshold == transferred.threshold == results["threshold"]["value"]
    right = shipped.predict(sets[1].texts) == np.array(["bad", "good"])[sets[1].labels]
    assert right.mean() == results["threshold"]["val_accuracy"]


def test_a_shipped_classifier_can_name_its_sentiment_unit():
    values = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    labels = np.arange(50) % 2
    values[:, 2] -= 3 * labels  # low for the second class
    values[:, 3] += 3 * labels
    classifier = regression(np.ones((1, 4)), np.zeros(1), ("bad", "good"), 0, 1, "digest")
    for unit, polarity in ((2, -1), (3, 1)):
        named = ship.with_neuron(classifier, unit, Examples(values, labels))
        assert (named.neuron, named.polarity) == (unit, polarity)
        assert named.steps is classifier.steps


def test_the_greedy_continuation_is_the_likeliest_byte_each_time(small_model):
    prompt = torch.randint(0, 256, (3, 9), generator=torch.Generator().manual_seed(0))
    written = memorization.greedy(small_model, prompt, 6)
    together = torch.cat([prompt, written], dim=1)
    logits, _ = small_model(together, small_model.initial_state(3))
    assert torch.equal(logits[:, 8:-1].argmax(2), written)


def test_recited_text_is_counted_by_its_like_prefix():
    split = encode_split((r.text * 3 for r in synthetic_reviews(30, seed=2)), text_profile("raw"))
    passages = memorization.sample_passages(split, 8, seed=0)
    written = passages[:, memorization.PROMPT :].copy()
    written[0, 10], written[1, 0] = 0, 0  # the synthetic reviews hold no zero byte
    row = memorization.likeness(written, passages[:, memorization.PROMPT :])
    assert (row["prompts"], row["exact"]) == (8, 6)
    assert row["mean_prefix"] == pytest.approx((6 * 50 + 10 + 0) / 8)
    assert row["longest_prefixes"] == [50] * 5


def test_a_near_copy_shares_its_runs_with_a_single_text():
    held_out = [sentence(13), sentence(13).replace("word6", "other"), "Too short.", "a " * 20]
    train = [
        f"A title: {sentence(13).upper()}",
        sentence(RUN - 1),
        f"word0 other {sentence(12, 1)}",
    ]
    fractions = near_copies.largest_shares(held_out, train)
    np.testing.assert_array_equal(fractions, [1, 0, 0, 0])
    np.testing.assert_array_equal(near_copies.largest_shares([sentence(13)], train[1:]), [0.5])
