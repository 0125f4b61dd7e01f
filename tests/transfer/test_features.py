"""The feature cache: computed once, whole or not there."""

from threading import Thread

import numpy as np
import pytest

from model.errors import InputError
from model.text.tokenizer import BYTES
from tests.support.folders import contents
from transfer.features import FeatureCache

TEXTS = [BYTES.encode(f"text number {i} ".encode() * (1 + i % 5)) for i in range(30)]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Process few texts at a time."""
    monkeypatch.setattr("transfer.features.BATCH_SIZE", 4)


def test_second_time_nothing_is_computed(tmp_path, small_model):
    cache = FeatureCache(tmp_path)
    features = cache.features(small_model, TEXTS, "train")
    (path,) = contents(tmp_path)
    np.save(path, features + 1)  # what no computation would give
    np.testing.assert_array_equal(cache.features(small_model, TEXTS, "train"), features + 1)
    assert len(list(contents(tmp_path))) == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-4]), "damaged"),
        (lambda path: path.write_bytes(b"no array"), "damaged"),
        (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\x28\x23" + b"-" * 9000), "damaged"),
        (lambda path: np.save(path, np.zeros((3, 12), np.float32)), r"float32 \[3, 12\], not"),
        (lambda path: np.save(path, np.zeros((30, 12))), r"float64 \[30, 12\], not"),
        (lambda path: np.save(path, np.full((30, 12), np.nan, np.float32)), "holds NaN"),
    ],
)
def test_a_damaged_file_of_the_cache_is_named(tmp_path, small_model, damage, message):
    cache = FeatureCache(tmp_path)
    cache.features(small_model, TEXTS, "train")
    (path,) = contents(tmp_path)
    damage(path)
    with pytest.raises(InputError, match=f"{path.name}: .*{message}.*remove it"):
        cache.features(small_model, TEXTS, "train")


class Interrupted:
    """A model that counts what it reads, and is interrupted when it begins a batch."""

    def __init__(self, model, batch):
        self.model, self.batch, self.begun = model, batch, 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    def hidden(self, *arguments):
        self.begun += 1
        if self.begun == self.batch:
            raise KeyboardInterrupt
        return self.model.hidden(*arguments)


def test_an_interruption_leaves_nothing_and_the_next_call_computes_all(tmp_path, small_model):
    expected = FeatureCache(tmp_path / "whole").features(small_model, TEXTS, "a")
    cut = FeatureCache(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        cut.features(Interrupted(small_model, 4), TEXTS, "a")
    assert not list(contents(tmp_path / "cut"))
    np.testing.assert_array_equal(cut.features(small_model, TEXTS, "a"), expected)


class Overtaken(Interrupted):
    """A model during whose batch another command starts and runs for a while."""

    def __init__(self, model, batch, other):
        super().__init__(model, batch)
        self.other = other

    def hidden(self, *arguments):
        try:
            return super().hidden(*arguments)
        except KeyboardInterrupt:
            self.other.start()
            self.other.join(timeout=0.5)
            return self.model.hidden(*arguments)


def test_of_two_commands_at_once_one_computes_and_both_have_the_features(tmp_path, small_model):
    expected = FeatureCache(tmp_path / "alone").features(small_model, TEXTS, "a")
    second, results = Interrupted(small_model, None), []

    def command():
        results.append(FeatureCache(tmp_path / "shared").features(second, TEXTS, "a"))

    other = Thread(target=command)
    first = Overtaken(small_model, 3, other)
    results.append(FeatureCache(tmp_path / "shared").features(first, TEXTS, "a"))
    other.join(timeout=60)
    assert second.begun == 0
    assert len(results) == 2
    for features in results:
        np.testing.assert_array_equal(features, expected)
    assert len(list(contents(tmp_path / "shared"))) == 1


@pytest.mark.usefixtures("without_file_locks")
def test_a_cache_works_where_the_file_system_has_no_locks(tmp_path, small_model):
    assert FeatureCache(tmp_path).features(small_model, TEXTS, "a").shape == (30, 12)
