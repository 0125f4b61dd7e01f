"""The feature cache: computed once, whole or not there."""

import numpy as np
import pytest

from mlstm_sentiment.engine import features
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.tokenizer import BYTES
from tests.support.folders import contents
from tests.support.loaded import as_loaded
from transfer.features import FeatureCache

TEXTS = [BYTES.encode(f"text number {i} ".encode() * (1 + i % 5)) for i in range(30)]


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    """Process four texts at a time."""
    monkeypatch.setattr(features, "NUMBERS_AT_ONCE", 4 * 12)


@pytest.fixture
def loaded(small_model):
    return as_loaded(small_model)


def test_a_second_time_nothing_is_computed_and_an_interruption_leaves_nothing(tmp_path, loaded):
    cache = FeatureCache(tmp_path)
    first = cache.features(loaded, TEXTS, "train")
    (path,) = contents(tmp_path)
    np.save(path, first + 1)  # what no computation would give
    np.testing.assert_array_equal(cache.features(loaded, TEXTS, "train"), first + 1)
    assert len(list(contents(tmp_path))) == 1
    expected = FeatureCache(tmp_path / "whole").features(loaded, TEXTS, "a")
    cut = FeatureCache(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        cut.features(Interrupted(loaded, 4), TEXTS, "a")
    assert not list(contents(tmp_path / "cut"))
    np.testing.assert_array_equal(cut.features(loaded, TEXTS, "a"), expected)


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
def test_a_damaged_file_of_the_cache_is_named(tmp_path, loaded, damage, message):
    cache = FeatureCache(tmp_path)
    cache.features(loaded, TEXTS, "train")
    (path,) = contents(tmp_path)
    damage(path)
    with pytest.raises(InputError, match=f"{path.name}: .*{message}.*remove it"):
        cache.features(loaded, TEXTS, "train")


class Interrupted:
    """A model that counts what it reads, and is interrupted when it begins a batch."""

    def __init__(self, loaded, batch):
        self.loaded, self.batch, self.begun = loaded, batch, 0

    def __getattr__(self, name):
        return getattr(self.loaded, name)

    def read(self, *arguments, **options):
        self.begun += 1
        if self.begun == self.batch:
            raise KeyboardInterrupt
        return self.loaded.read(*arguments, **options)
