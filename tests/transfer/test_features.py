"""The feature cache: computed once, resumed where it was interrupted."""

import numpy as np
import pytest

import transfer.features as features_module
from model.errors import InputError
from model.files.weights import model_digest
from model.language_model import ModelConfig, build_model
from model.text.tokenizer import BYTES
from transfer.features import FeatureCache

TEXTS = [BYTES.encode(f"text number {i} ".encode() * (1 + i % 5)) for i in range(30)]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(features_module, "BATCH_SIZE", 4)
    monkeypatch.setattr(features_module, "SECONDS_BETWEEN_SAVES", 0.0)


def test_second_time_nothing_is_computed(tmp_path, small_model, monkeypatch):
    cache = FeatureCache(tmp_path)
    first = cache.features(small_model, TEXTS, "train")
    monkeypatch.setattr(features_module, "final_states", None)
    np.testing.assert_array_equal(cache.features(small_model, TEXTS, "train"), first)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-4]), "damaged"),
        (lambda path: path.write_bytes(b"no array"), "damaged"),
        (lambda path: np.save(path, np.zeros((3, 12), np.float32)), r"float32 \[3, 12\], not"),
        (lambda path: np.save(path, np.zeros((30, 12))), r"float64 \[30, 12\], not"),
    ],
)
def test_a_damaged_file_of_the_cache_is_named(tmp_path, small_model, damage, message):
    cache = FeatureCache(tmp_path)
    cache.features(small_model, TEXTS, "train")
    (path,) = tmp_path.iterdir()
    damage(path)
    with pytest.raises(InputError, match=f"{path.name}: .*{message}.*remove it"):
        cache.features(small_model, TEXTS, "train")


def test_an_interruption_costs_only_what_was_under_way(tmp_path, small_model, monkeypatch):
    expected = FeatureCache(tmp_path / "whole").features(small_model, TEXTS, "a")
    original, computed = features_module.final_states, []

    def stop_after_three(*arguments, **options):
        for rows, values in original(*arguments, **options):
            if len(computed) == 3:
                raise KeyboardInterrupt
            computed.append(rows)
            yield rows, values

    cache = FeatureCache(tmp_path / "cut")
    with monkeypatch.context() as patch:
        patch.setattr(features_module, "final_states", stop_after_three)
        with pytest.raises(KeyboardInterrupt):
            cache.features(small_model, TEXTS, "a")

    later = []

    def count(*arguments, **options):
        for rows, values in original(*arguments, **options):
            later.append(rows)
            yield rows, values

    monkeypatch.setattr(features_module, "final_states", count)
    np.testing.assert_array_equal(cache.features(small_model, TEXTS, "a"), expected)
    assert sorted(np.concatenate(computed + later)) == list(range(30))


def test_another_model_or_other_texts_are_other_features(tmp_path, small_model):
    cache = FeatureCache(tmp_path)
    cache.features(small_model, TEXTS, "a")
    cache.features(small_model, TEXTS[:-1], "a")
    cache.features(build_model(ModelConfig(hidden_size=12), seed=9), TEXTS, "a")
    assert len(list(tmp_path.iterdir())) == 3


def test_digest_sees_every_weight(small_model):
    before = model_digest(small_model)
    assert before == model_digest(small_model)
    small_model.decoder.bias.data[5] += 1e-6
    assert before != model_digest(small_model)
