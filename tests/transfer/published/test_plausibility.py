"""The plausibility check of imported weights: when it warns, and of what."""

import numpy as np
import pytest

from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.transfer.published.layouts import draw, openai_arrays, write_openai
from transfer.published.imports import (
    PLAIN_ENGLISH,
    _bits_on_plain_english,
    _gains_difference,
    import_openai,
)


def with_equal_gains(language):
    """Scale the columns of wmh so that its gains are those of wmx, as training makes them."""
    matrices = language.layers[0]
    norms = {name: np.sqrt((matrices[name] ** 2).sum(axis=0)) for name in ("Wmx", "Wmh")}
    layer = matrices | {"Wmh": matrices["Wmh"] * norms["Wmx"] / norms["Wmh"]}
    return type(language)(language.embedding, [layer], language.w, language.b)


def test_equal_gains_are_recognised(tmp_path):
    language = draw()
    different = import_openai(write_openai(tmp_path / "a", openai_arrays(language)))
    assert any("11.npy, 12.npy" in warning for warning in different.warnings)
    equal = import_openai(write_openai(tmp_path / "b", openai_arrays(with_equal_gains(language))))
    assert _gains_difference(equal.model) < 1e-5 < _gains_difference(different.model)
    assert any("11.npy, 12.npy" in remark for remark in equal.remarks)
    assert not any("11.npy" in warning for warning in equal.warnings)


def test_a_model_that_reads_english_is_plausible_and_another_is_not(tmp_path, learnt):
    good = import_openai(write_openai(tmp_path / "good", openai_arrays(learnt)))
    assert any(remark.startswith("plausible") for remark in good.remarks)
    wrong = import_openai(tmp_path / "good", "ifuo")
    assert any(warning.startswith("implausible") for warning in wrong.warnings)
    assert wrong.provenance["plain_english_bits_per_character"] > 3


def test_a_uniform_model_costs_eight_bits_and_bits_are_the_mean_over_every_character(
    learnt, tmp_path
):
    model = build_model(ModelConfig(hidden_size=4, embedding_size=3), seed=0)
    model.decoder.weight.data.zero_()
    assert _bits_on_plain_english(model) == pytest.approx(8)
    model.layers[0].g_mx.data.zero_()
    model.layers[0].g_mh.data.zero_()
    assert _gains_difference(model) == 0
    imported = import_openai(write_openai(tmp_path / "weights", openai_arrays(learnt)))
    costs = []
    for text in PLAIN_ENGLISH:
        data = b"\n " + text.encode()
        logits = learnt.read(data)[2]
        total = np.log2(np.exp(logits).sum(axis=1))
        bits = total[:-1] - logits[np.arange(len(data) - 1), list(data[1:])] / np.log(2)
        costs += list(bits[1:])  # the first is of the frame's space
    assert _bits_on_plain_english(imported.model) == pytest.approx(np.mean(costs), abs=1e-3)
