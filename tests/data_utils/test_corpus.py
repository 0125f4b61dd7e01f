"""A prepared corpus whose files change while they are read."""

import os
import pickle
import shutil
from collections import Counter

import numpy as np
import pytest

from data_utils.corpus import LABELLED_SEEDS, SEEDS, embedded_corpus, open_corpus
from data_utils.lanes import Lanes
from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.engine.scoring import score_split
from mlstm_sentiment.errors import InputError
from tests.support.loaded import as_loaded
from tests.support.runs import ROOT, assert_refused, small_run, start, wait_for
from training.evaluation import evaluate_split
from training.parallel.distributed import launched

SHRANK = r"train\.bin: shrank from [0-9,]+ to 1,000 bytes while it was read; restore it"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(ROOT / "tests/fixtures/v1/corpus", tmp_path / "corpus")


def test_no_reader_goes_beyond_the_end_of_a_file_that_shrank(folder, small_model):
    split = open_corpus(folder).splits["train"]
    lanes = Lanes(split, lanes=4, window=16)
    epochs = Lanes(split, lanes=4, window=16, shuffles_reviews=True)
    assert lanes[0].transitions
    assert epochs[0].transitions
    os.truncate(folder / "train.bin", 1000)
    with launched("cpu") as world:
        for read in (
            lambda: lanes[1],
            lambda: epochs[epochs.windows],  # the second epoch copies the reviews
            lambda: evaluate_split(small_model, split, lanes=4, world=world),
            lambda: score_split(as_loaded(small_model), split),
        ):
            with pytest.raises(InputError, match=SHRANK):
                read()


def test_a_shrunk_file_of_offsets_is_noticed_too(folder):
    split = open_corpus(folder).splits["train"]
    os.truncate(folder / "train.offsets", 8)
    with pytest.raises(InputError, match=r"train\.offsets: shrank"):
        split.check()


def test_a_file_that_is_replaced_or_removed_stays_readable(folder):
    split = open_corpus(folder).splits["train"]
    before = np.array(split.tokens)
    (folder / "shorter").write_bytes(b"x")
    (folder / "shorter").replace(folder / "train.bin")
    (folder / "train.offsets").unlink()
    split.check()
    np.testing.assert_array_equal(split.tokens, before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(split)).tokens, before)


def test_a_training_whose_corpus_shrinks_ends_in_one_line(folder, tmp_path):
    errors, output = tmp_path / "errors", tmp_path / "output"
    errors.touch()
    output.touch()
    command = small_run(tmp_path / "run", 100_000, **{"data.corpus": folder})
    process = start(*command, streams=[output, errors])
    wait_for(tmp_path / "run/metrics.jsonl", lambda rows: rows.count("\n") >= 2)
    os.truncate(folder / "train.bin", 1000)
    process.communicate(60)
    process.stderr, process.stdout = errors.read_text(), output.read_text()
    assert_refused(process, "train.bin: shrank", "--resume")


def test_reviews_are_balanced_varied_and_have_sentiment_words_under_both_labels():
    reviews = list(synthetic_reviews(3000, seed=0))
    positive = sum(review.label for review in reviews)
    assert abs(positive - 1500) < 4 * (3000 / 4) ** 0.5  # four standard deviations
    assert len({review.text for review in reviews}) > 2900
    assert len(Counter(word for review in reviews for word in review.text.split())) > 500
    reviews = list(synthetic_reviews(3000, seed=0))
    for word in ("sturdy", "flimsy"):
        labels = [review.label for review in reviews if word in review.text]
        positive = sum(labels) / len(labels)
        assert 0.1 < positive < 0.9


def test_the_embedded_corpus_is_always_the_same_and_no_split_shares_a_seed():
    seeds = [*SEEDS.values(), *LABELLED_SEEDS.values()]
    assert len(set(seeds)) == len(seeds)
    corpus = embedded_corpus()
    assert corpus.fingerprint == "a71433123194056d 8c8f170991dca9fc 247e2d246ecfa893"
    assert corpus.splits["train"].tokens[:2].tobytes() == b"\n "
