"""What the shipped model may read, what it knows while it learns, and whether it recites."""

import json
import random
import shutil

import numpy as np
import pytest
import torch

from data_utils.labelled import read_labelled_sets
from data_utils.synthetic import synthetic_reviews
from experiments.shipped import labelled_texts, memorization, plot, probe, select_reviews, ship
from experiments.shipped.overlap import RUN, SHORTEST, HeldOut
from model import SentimentClassifier
from model.errors import InputError
from model.text.profiles import text_profile
from model.text.split import encode_split
from tests.runs import run, small_run
from training.metrics import read_rows
from transfer.experiment import run_transfer

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


def test_apostrophes_do_not_hide_a_text():
    assert HeldOut(["it isn't what they said it'd be"]).shares_with(
        "It isnt what they said itd be, sadly."
    )


@pytest.mark.parametrize(
    ("title", "first"),
    [("none", "It broke."), ("first", "Bad | It broke."), ("last", "It broke. | Bad")],
)
def test_reviews_are_selected_by_source_and_apart_from_the_held_out(tmp_path, title, first):
    rows = [
        {"reviewText": "It broke.", "summary": "Bad", "source": "fine_foods"},
        {"reviewText": "It works.", "summary": None, "source": "fine_foods"},
        {"reviewText": "Fine.", "source": "aws_us_reviews"},
        {"reviewText": f"As they say, {sentence(RUN)}", "source": "fine_foods"},
    ]
    (tmp_path / "reviews.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "test.csv").write_text(f"label,text\n1,{sentence(RUN)}\n")
    process = run(
        *("-m", "experiments.shipped.select_reviews", tmp_path / "reviews.jsonl"),
        *("--held-out", tmp_path / "test.csv", "--output", tmp_path / "out.jsonl"),
        *("--title", title),
    )
    assert process.returncode == 0, process.stderr
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    assert texts == [first, "It works."]
    report = json.loads((tmp_path / "out.report.json").read_text())
    assert "select_reviews" in report["origin"]["command"]
    assert report["reviews"] == {
        "kept: fine_foods": 2,
        "left out: its licence forbids redistribution": 1,
        "left out: shares wording with a held-out text": 1,
    }


@pytest.mark.parametrize(
    ("stars", "label", "mark"),
    [(5.0, None, "+"), (4, 0, "+"), (3.0, 1, ""), (2, None, "-"), (None, 1, "+"), (None, 0, "-")],
)
def test_stars_go_before_labels_as_marks(stars, label, mark):
    assert select_reviews.mark_of(stars, label) == mark
    assert select_reviews.mark_of(None, None) == ""


@pytest.mark.parametrize(
    ("title", "arranged"),
    [("none", "It broke. | -"), ("first", "Bad | It broke. | -"), ("last", "It broke. | - | Bad")],
)
def test_a_mark_stands_right_behind_the_text(title, arranged):
    record = {"reviewText": "It broke.", "summary": "Bad", "overall": 1}
    review = select_reviews.Review.of(record)
    assert select_reviews.arranged(review, title, marks=True) == arranged
    assert "-" not in select_reviews.arranged(review, title, marks=False)


def test_long_texts_are_left_out_on_request():
    held_out = HeldOut([sentence(RUN)])
    review = select_reviews.Review("four")
    assert select_reviews.what_bars(review, "fine_foods", held_out, 3) == "more than 3 characters"
    assert select_reviews.what_bars(review, "fine_foods", held_out, 4) is None


@pytest.mark.parametrize("record", [{}, {"reviewText": " \n", "summary": "Bad"}])
def test_a_review_without_text_is_left_out(record):
    review = select_reviews.Review.of(record)
    assert select_reviews.what_bars(review, "fine_foods", HeldOut([]), None) == "no text"


def test_no_source_is_left_out_for_two_reasons():
    assert len(select_reviews.UNKNOWN_SOURCES) == len(set(select_reviews.UNKNOWN_SOURCES))
    assert select_reviews.EXCLUDED["alexa"] == select_reviews.UNKNOWN


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert run(*small_run(folder, 12)).returncode == 0
    return folder


def test_checkpoints_are_scored_once(trained, tmp_path, monkeypatch):
    for name in ("train", "val"):
        rows = (json.dumps(r._asdict()) for r in synthetic_reviews(60, seed=len(name)))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    argv = ["probe", str(trained), "--output", str(tmp_path / "curve.json"), "--apart", "1"]
    argv += ["--train", str(tmp_path / "train.jsonl"), "--val", str(tmp_path / "val.jsonl")]
    monkeypatch.setattr("sys.argv", argv)
    probe.main()
    points = json.loads((tmp_path / "curve.json").read_text())["points"]
    assert [point["characters"] for point in points] == [6 * 8 * 16, 12 * 8 * 16]
    assert points[0]["train_bits_per_character"] > points[1]["valid_bits_per_character"] - 1
    assert all(0 <= point["val_accuracy"] <= 1 for point in points)
    probe.main()
    assert json.loads((tmp_path / "curve.json").read_text())["points"] == points
    plot.draw(list(read_rows(trained / "metrics.jsonl")), points, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_checkpoints_may_come_and_go_while_they_are_scored(tmp_path, monkeypatch):
    asked = []

    def score_while_the_run_goes_on(checkpoint, sets, options):
        asked.append(checkpoint.name)
        if checkpoint.name == "step-00000001":
            shutil.rmtree(tmp_path / "step-00000002")
            (tmp_path / "step-00000004").mkdir()
        elif checkpoint.name == "step-00000003":
            shutil.rmtree(checkpoint)
            raise InputError("training.json: no such file")

    for number in (1, 2, 3):
        (tmp_path / f"step-{number:08}").mkdir()
    monkeypatch.setattr(probe, "add_point", score_while_the_run_goes_on)
    monkeypatch.setattr(probe.time, "sleep", lambda seconds: None)
    probe.add_points(tmp_path, [], None)
    assert asked == ["step-00000001", "step-00000003", "step-00000004"]

    def fail(*arguments):
        raise InputError("damaged")

    monkeypatch.setattr(probe, "add_point", fail)
    with pytest.raises(InputError, match="damaged"):
        probe.add_points(tmp_path, [], None)


def test_what_is_shipped_tells_sentiment_as_a_transfer_does(trained, tmp_path, monkeypatch):
    paths = {}
    for name, count in (("train", 200), ("val", 100)):
        rows = (json.dumps(r._asdict()) for r in synthetic_reviews(count, seed=count))
        paths[name] = tmp_path / f"{name}.jsonl"
        paths[name].write_text("\n".join(rows))
    monkeypatch.setattr(ship, "SHIPPED_MODELS", tmp_path / "pretrained")
    (tmp_path / "pretrained").mkdir()
    (tmp_path / "pretrained" / "LICENSE").write_text("for research")
    words = [trained, "--name", "small", "--work", tmp_path / "work"]
    words += ["--train", paths["train"], "--val", paths["val"], "--classes", "bad", "good"]
    monkeypatch.setattr("sys.argv", ["ship", *map(str, words)])
    ship.main()
    folder = tmp_path / "pretrained" / "small"
    assert (folder / "LICENSE").read_text() == "for research"
    origin = json.loads((folder / "classifier" / "classifier.json").read_text())["origin"]
    assert origin["data"]["train"]["examples"] == 200
    assert "--name small" in origin["command"]
    shipped = SentimentClassifier.from_pretrained(folder)
    sets = read_labelled_sets([paths["train"], paths["val"], paths["val"]])
    assert [part["sha256"] for part in origin["data"].values()] == [s.digest for s in sets[:2]]
    results = run_transfer(shipped.loaded, sets, tmp_path / "transfer")
    own, transferred = (
        shipped.fitted_,
        SentimentClassifier.from_pretrained(
            tmp_path / "pretrained" / "small", tmp_path / "transfer"
        ).fitted_,
    )
    np.testing.assert_array_equal(own.coefficients, transferred.coefficients)
    assert own.threshold == transferred.threshold == results["threshold"]["value"]
    right = shipped.predict(sets[1].texts) == np.array(["bad", "good"])[sets[1].labels]
    assert right.mean() == results["threshold"]["val_accuracy"]


def test_the_greedy_continuation_is_the_likeliest_byte_each_time(small_model):
    prompt = torch.randint(0, 256, (3, 9), generator=torch.Generator().manual_seed(0))
    written = memorization.greedy(small_model, prompt, 6)
    together = torch.cat([prompt, written], dim=1)
    logits, _ = small_model(together, small_model.initial_state(3))
    assert torch.equal(logits[:, 8:-1].argmax(2), written)


def test_recited_text_is_counted_by_its_like_prefix(monkeypatch, small_model):
    split = encode_split((r.text * 3 for r in synthetic_reviews(30, seed=2)), text_profile("raw"))
    passages = memorization.sample_passages(split, 8, seed=0)
    own = torch.from_numpy(passages[:, memorization.PROMPT :]).long()
    own[0, 10], own[1, 0] = 0, 0  # the synthetic reviews hold no zero byte
    monkeypatch.setattr(memorization, "greedy", lambda *_: own)
    row = memorization.recited(small_model, split, 8, seed=0)
    assert (row["prompts"], row["exact"]) == (8, 6)
    assert row["mean_prefix"] == pytest.approx((6 * 50 + 10 + 0) / 8)
    assert row["longest_prefixes"] == [50] * 5


def test_passages_lie_within_one_review():
    texts = ["a" * 120, "b" * 99, "c" * 300]
    split = encode_split(texts, text_profile("raw"))
    passages = memorization.sample_passages(split, 10, seed=1)
    assert sorted(np.unique(row).tolist() for row in passages) == [[ord("a")], [ord("c")]]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("One. Two is here. Three.", "Two is here. Three."),
        ("One.<br /><br />Two is a  sentence of more characters.", None),
        ("x" * 100, "x" * 40),
        ("", ""),
    ],
)
def test_the_end_of_a_review_is_whole_sentences(text, end):
    expected = "Two is a sentence of more characters." if end is None else end
    assert labelled_texts.end_of(text, 20) == expected


def test_labelled_texts_are_balanced_and_apart_from_the_held_out(tmp_path, monkeypatch):
    secret = sentence(RUN)
    stars = [
        {"reviewText": f"stars {n}", "overall": n % 5 + 1, "source": "fine_foods"}
        for n in range(40)
    ]
    write_rows(tmp_path / "amazon.jsonl", [*stars, {"reviewText": secret, "overall": 5}])
    labelled = [{"text": f"First. Last {n}.", "label": n % 2} for n in range(4)]
    write_rows(tmp_path / "imdb.jsonl", [*labelled, {"text": f"{secret}. Good.", "label": 1}])
    write_rows(tmp_path / "sst.jsonl", labelled[:2])
    (tmp_path / "held_out.txt").write_text(secret)
    monkeypatch.setattr(
        "sys.argv",
        f"labelled_texts {tmp_path}/amazon.jsonl --imdb {tmp_path}/imdb.jsonl --sst "
        f"{tmp_path}/sst.jsonl --held-out {tmp_path}/held_out.txt --output {tmp_path}/out "
        "--reviews 10 --reviews-val 4 --end 9".split(),
    )
    labelled_texts.main()
    train, val = (
        [json.loads(line) for line in (tmp_path / "out" / name).read_text().splitlines()]
        for name in ("train.jsonl", "val.jsonl")
    )
    drawn = [row for row in train if row["text"].startswith("stars")]
    for rows, each in ((drawn, 5), (val, 2)):
        assert sorted(row["label"] for row in rows) == [0] * each + [1] * each
        assert all(int(row["text"][6:]) % 5 != 2 for row in rows)  # three stars say nothing
    assert not {row["text"] for row in drawn} & {row["text"] for row in val}
    others = sorted(row["text"] for row in train if not row["text"].startswith("stars"))
    ends, copies = [f"Last {n}." for n in range(4)], ["First. Last 0.", "First. Last 1."] * 2
    assert others == sorted([*ends, *copies])


def test_too_few_reviews_of_a_label_are_an_error(tmp_path, monkeypatch):
    write_rows(tmp_path / "amazon.jsonl", [{"reviewText": "good", "overall": 5}])
    write_rows(tmp_path / "set.jsonl", [{"text": "a", "label": 0}, {"text": "b", "label": 1}])
    (tmp_path / "held_out.txt").write_text("x\n")
    options = labelled_texts.Options(
        (tmp_path / "amazon.jsonl",), tmp_path / "set.jsonl", tmp_path / "set.jsonl",
        (tmp_path / "held_out.txt",), tmp_path / "out",
    )  # fmt: skip
    with pytest.raises(InputError, match="0 reviews of one label"):
        labelled_texts.draw_stars(options, HeldOut([]), None)


def test_equal_reviews_are_drawn_once(tmp_path):
    texts = [("good", 5), ("bad", 1)] * 20 + [("fine", 4), ("worse", 2), ("good", 1)]
    rows = [{"reviewText": text, "overall": stars} for text, stars in texts]
    write_rows(tmp_path / "amazon.jsonl", rows)
    options = labelled_texts.Options(
        (tmp_path / "amazon.jsonl",), tmp_path, tmp_path, (), tmp_path, reviews=2, reviews_val=2,
    )  # fmt: skip
    drawn = labelled_texts.draw_stars(options, HeldOut([]), random.Random(0))
    assert sorted(drawn) == [("bad", 0), ("fine", 1), ("good", 1), ("worse", 0)]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
