"""Weights as 8-bit integers: how far they move, and what is refused."""

import json

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.features import features_in_order
from model.files.quantization import SCALE, dequantize, quantize
from model.files.weights import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    load_model,
    load_tensors,
    save_model,
    save_tensors,
)
from model.language_model import ModelConfig, build_model
from model.text.profiles import text_profile
from model.text.tokenizer import BYTES


def test_every_weight_moves_by_at_most_half_a_step_of_its_row():
    tensors = {"w": torch.randn(7, 33) * torch.logspace(-6, 2, 7).unsqueeze(1), "b": torch.randn(7)}
    kept = quantize(tensors)
    assert kept["w"].dtype == torch.int8
    assert kept["w"].abs().max() == 127
    back = dequantize(kept)
    step = tensors["w"].abs().amax(1, keepdim=True) / 127
    # half a step, and the rounding of fp32 at the largest value of the row
    assert ((back["w"] - tensors["w"]).abs() <= step * (0.5 + 127 * 2**-23)).all()
    assert torch.equal(back["b"], tensors["b"])


def test_a_row_of_zeros_stays_zero():
    assert not dequantize(quantize({"w": torch.zeros(3, 4)}))["w"].any()


def test_a_quantized_model_loads_and_predicts_nearly_the_same(tmp_path, small_model):
    profile = text_profile("openai")
    save_model(tmp_path / "full", small_model, profile, {})
    save_model(tmp_path / "small", small_model, profile, {}, quantized=True)
    texts = [
        BYTES.encode(profile.encode(text))
        for text in ("It works.", "Broke on day one, and no refund!")
    ]
    full, small = (
        features_in_order(load_model(tmp_path / name).model, texts) for name in ("full", "small")
    )
    assert not np.array_equal(full, small)
    assert np.abs(full - small).max() < 0.05 * np.abs(full).max()
    sizes = [(tmp_path / name / WEIGHTS_FILE).stat().st_size for name in ("full", "small")]
    assert sizes[1] < 0.5 * sizes[0]  # this one is tiny: gains, biases and names weigh too


def test_the_file_holds_what_it_says(tmp_path, small_model):
    save_model(tmp_path, small_model, text_profile("openai"), {}, quantized=True)
    tensors = load_tensors(tmp_path / WEIGHTS_FILE)
    assert tensors["layers.0.w_h"].dtype == torch.int8
    assert json.loads((tmp_path / CONFIG_FILE).read_text())["format_version"] == 2
    del tensors["layers.0.w_h" + SCALE]
    save_tensors(tmp_path / WEIGHTS_FILE, tensors)
    with pytest.raises(InputError, match=r"tensor layers.0.w_h.scale is absent"):
        load_model(tmp_path)


def test_a_plain_model_stays_readable_by_the_first_version(tmp_path):
    save_model(tmp_path, build_model(ModelConfig(hidden_size=4), 0), text_profile("raw"), {})
    assert json.loads((tmp_path / CONFIG_FILE).read_text())["format_version"] == 1
