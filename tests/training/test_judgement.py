"""What a run says of itself: against models without training, at spikes, and at its end."""

import json

import numpy as np
import pytest

from data_utils.preparation.preparation import Preparation, prepare_corpus
from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.text.split import Split
from tests.support.runs import done, rows_of, run, small_run
from training.judgement import Baselines, spike_bits, worth


def split_of(text):
    return Split(np.frombuffer(text, np.uint8), np.array([0, len(text)]))


def test_unigrams_are_counted_in_one_split_and_scored_on_another_per_byte(subword_split):
    train, valid = split_of(b"a" * 744 + b"b" * 0), split_of(b"aab")
    expected = (2 * -np.log2(745 / 1000) - np.log2(1 / 1000)) / 3  # every byte is counted once more
    assert Baselines.of(train, valid).unigrams == pytest.approx(expected)
    counts = np.bincount(subword_split.tokens, minlength=400) + 1
    costs = -np.log2(counts / counts.sum())[subword_split.tokens]
    characters = subword_split.tokenizer.count_bytes(subword_split.tokens)
    found = Baselines.of(subword_split, subword_split).unigrams
    assert found == pytest.approx(costs.sum() / characters)


@pytest.mark.parametrize(
    ("bits", "verdict"),
    [
        (4.49, None),
        (4.5, (False, "worse than unigrams (4.5000 bits)")),
        (8.0, (False, "worse than unigrams (4.5000 bits)")),
        (37.7, (True, "worse than uniform bytes (8 bits)")),
        (8.1, (False, "worse than uniform bytes (8 bits)")),  # a network that has not learned yet
        (float("nan"), (False, "worse than unigrams (4.5000 bits)")),
    ],
)
def test_a_loss_is_compared_with_what_needs_no_training(bits, verdict):
    assert Baselines(4.5).verdict(bits) == verdict


@pytest.mark.parametrize(
    ("bits", "recent", "characters", "above"),
    [
        (9.0, [2.0] * 3, 10**6, None),  # too early
        (2.21, [2.0] * 4, 10**6, 0.21),
        (2.19, [2.0] * 4, 10**6, None),  # less than a tenth
        (2.21, [2.0] * 4, 5_000, None),  # chance: 20 / 71 bits
        (2.5, [2.0] * 4, 5_000, 0.5),
        (2.5, [9.0, 2.0, 2.0, 2.0, 2.0], 10**6, 0.5),  # an earlier spike does not hide it
        (1.0, [2.0] * 8, 10**6, None),
    ],
)
def test_the_rule_of_a_spike(bits, recent, characters, above):
    found = spike_bits(bits, recent, characters)
    assert found == (None if above is None else pytest.approx(above))


@pytest.mark.parametrize(
    ("valid", "words"),
    [
        ({50: 3.0, 90: 2.004, 100: 2.0}, "by 2.5000 bits a character; still falling: 0.0040 valid"),
        ({50: 3.0, 90: 2.001, 100: 2.0}, "by 2.5000 bits a character; level: 0.0010 valid"),
        ({50: 1.5, 90: 1.9, 100: 2.0}, "by 3.0000 bits a character; rising: 0.1000 valid"),
        ({95: 2.1, 100: 2.0}, "too few evaluations for a trend"),
        ({50: 3.0, 100: 2.0}, "still falling: 1.0000 valid bits from step 50 to 100"),
        ({}, "still falling: 0.5000 train bits from step 90 to 100"),
    ],
)
def test_the_last_line_says_what_a_run_is_worth(valid, words):
    rows = [
        {"step": step, "train_bits_per_character": 4 - step / 20}
        | ({"valid_bits_per_character": valid[step]} if step in valid else {})
        for step in (50, 90, 95, 100)
    ]
    assert words in worth(rows, Baselines(4.5))


def test_a_run_that_diverged_though_finite_ends_with_3_and_without_a_model(tmp_path):
    process = run(*small_run(tmp_path, 12, **{"optim.lr": 30}))
    assert process.returncode == 3, process.stderr
    verdict = "worse than uniform bytes (8 bits)"
    line = f"no model: the last one is {verdict}; the training has diverged; start again with"
    assert process.stdout.splitlines()[-1].startswith(f"{line} an optim.lr below 30")
    assert not (tmp_path / "model").exists()
    evaluated = [row for row in rows_of(tmp_path) if "valid_bits_per_character" in row]
    assert [row["verdict"] for row in evaluated] == [verdict] * 2
    saved = json.loads((tmp_path / "checkpoint/step-00000012/config.json").read_text())
    assert saved["provenance"]["verdict"] == verdict


@pytest.fixture
def spiky(tmp_path):
    """A corpus with noise in the middle of its text."""
    folder = tmp_path / "spiky"
    folder.mkdir()
    random = np.random.default_rng(0)
    texts = [review.text for review in synthetic_reviews(400, seed=1)]
    for number in range(200, 240):
        noise = random.integers(33, 127, len(texts[number]))
        texts[number] = "".join(map(chr, noise))
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    prepare_corpus([folder / "in.jsonl"], folder / "corpus", Preparation(split=(1, 0, 0)))
    return folder / "corpus"


def test_a_spike_is_reported_in_its_row_and_its_line(spiky, tmp_path):
    settings = {"data.corpus": spiky, "optim.lr": 0.03, "data.window": 64}
    settings["evaluate.every_steps"] = 1000  # it judges rows of training
    assert "SPIKE: +" in done(run(*small_run(tmp_path / "run", 120, **settings))).stdout
    assert any("spike_bits" in row for row in rows_of(tmp_path / "run"))
