"""Weights as integers of few bits: how far they move, and what is refused."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.stored import StoredMatrix
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import CONFIG_FILE, WEIGHTS_FILE
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.tensors import (
    BITS,
    SCALE,
    IntegerBits,
    quantize,
    quantized_shapes,
    unpack,
)
from mlstm_sentiment.files.tensors import (
    _pack as pack,
)
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.tokenizer import BYTES
from model.inference.features import features_in_order
from model.inference.tensors import save_tensors
from model.inference.weights import load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from training.runs.checkpoint_store import load_tensors


def shapes_of(tensors):
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def rounded(matrix, bits):
    stored = quantize({"w": matrix}, IntegerBits(bits))
    return StoredMatrix(stored["w"], stored["w" + SCALE], None, matrix.shape[1], bits).floats()


@pytest.mark.parametrize("columns", [1, 2, 3, 32, 33])  # 6 bits fill whole bytes four by four
@pytest.mark.parametrize("bits", BITS)
def test_every_weight_moves_by_at_most_half_a_step_of_its_row(bits, columns):
    random = np.random.default_rng(columns).normal(size=(7, columns)).astype(np.float32)
    sizes = np.array([0, *np.logspace(-6, 2, 6)], np.float32)
    tensors = {"w": random * sizes[:, None], "b": random[:, 0]}
    stored, back = quantize(tensors, IntegerBits(bits)), rounded(tensors["w"], bits)
    assert shapes_of(stored) == quantized_shapes(shapes_of(tensors), IntegerBits(bits))
    largest = 2 ** (bits - 1) - 1
    step = np.abs(tensors["w"]).max(1, keepdims=True) / largest
    # half a step, and the rounding of fp32 at the largest value of the row
    assert (np.abs(back - tensors["w"]) <= step * (0.5 + largest * 2**-23)).all()
    np.testing.assert_array_equal(stored["b"], tensors["b"])


def test_packed_integers_are_their_twos_complement_side_by_side():
    integers = np.array([[1, -1, 31, -31, 5]], np.int8)
    written = "".join(f"{int(n) & 0x3F:06b}" for n in integers[0]) + "00"  # padded to whole bytes
    packed = pack(integers, 6)
    assert packed.dtype == np.uint8
    assert "".join(f"{int(byte):08b}" for byte in packed[0]) == written
    np.testing.assert_array_equal(unpack(packed, 5, 6), integers)


@given(
    integers=arrays(np.int8, array_shapes(min_dims=1, max_dims=3), elements=st.integers(-16, 15)),
    bits=st.sampled_from(BITS[1:]),
)
def test_what_is_packed_is_unpacked(integers, bits):
    packed = pack(integers, bits)
    np.testing.assert_array_equal(unpack(packed, integers.shape[-1], bits), integers)


@pytest.mark.parametrize(("bits", "version"), [(8, 2), (6, 4), (5, 4)])
def test_integers_of_other_bits_are_refused(tmp_path, small_model, bits, version):
    save_model(tmp_path, small_model, text_profile("openai"), {}, quantized=True, bits=bits)
    description = read_json(tmp_path / CONFIG_FILE)
    assert description["format_version"] == version
    for wrong in (7, True, "6", 6.0, None):
        write_json(tmp_path / CONFIG_FILE, {**description, "bits": wrong}, "part of a folder")
        with pytest.raises(InputError, match=r"config\.json: bits is .*; it must be one of 8, "):
            load_model(tmp_path)
    other = {**description, "bits": 6 if bits == 8 else 8}
    write_json(tmp_path / CONFIG_FILE, other, "part of a folder")
    with pytest.raises(InputError, match=r"tensor .* is .*, but the description asks for"):
        load_model(tmp_path)


@pytest.mark.parametrize(("bits", "change"), [(8, 0.05), (6, 0.2), (5, 0.4)])
def test_a_quantized_model_loads_and_predicts_nearly_the_same(tmp_path, small_model, bits, change):
    profile = text_profile("openai")
    save_model(tmp_path / "full", small_model, profile, {})
    save_model(tmp_path / "small", small_model, profile, {}, quantized=True, bits=bits)
    spoken = ("It works.", "Broke on day one, and no refund!")
    texts = [BYTES.encode(profile.encode(text)) for text in spoken]
    full, small = (
        features_in_order(load_model(tmp_path / name).model, texts) for name in ("full", "small")
    )
    assert not np.array_equal(full, small)
    assert np.abs(full - small).max() < change * np.abs(full).max()
    sizes = [(tmp_path / name / WEIGHTS_FILE).stat().st_size for name in ("full", "small")]
    assert sizes[1] < 0.5 * sizes[0]  # this one is tiny: gains, biases and names weigh too


def test_fewer_bits_for_the_decoder_change_no_state(tmp_path, small_model):
    profile, states, costs = text_profile("openai"), [], []
    for decoder_bits, version in [(8, 2), (6, 5), (5, 5)]:
        folder = tmp_path / str(decoder_bits)
        options = {"quantized": True, "bits": 8, "decoder_bits": decoder_bits}
        save_model(folder, small_model, profile, {}, **options)
        assert read_json(folder / CONFIG_FILE)["format_version"] == version
        for model in (load_model(folder), Engine.load(folder)):
            reading = model.read(["Broke on day one, and no refund!"], bits=True)
            states.append(reading.features(("last",)))
            costs.append(reading.bits[0])
    for engine, torchs in ((1, 0), (3, 2), (5, 4)):
        np.testing.assert_array_equal(states[engine], states[1])
        np.testing.assert_array_equal(states[torchs], states[0])
        assert costs[engine] == pytest.approx(costs[torchs], rel=1e-2)
    assert len(set(costs[1::2])) == 3


def test_a_file_without_a_scale_or_with_one_too_large_is_refused(tmp_path, small_model):
    save_model(tmp_path, small_model, text_profile("openai"), {}, quantized=True)
    tensors = load_tensors(tmp_path / WEIGHTS_FILE)
    assert tensors["layers.0.w_h"].dtype == torch.int8
    tensors["decoder.weight" + SCALE][3] = torch.finfo(torch.float32).max  # finite by itself
    save_tensors(tmp_path / WEIGHTS_FILE, tensors)
    with pytest.raises(InputError, match=r"safetensors: decoder\.weight holds NaN or infinity"):
        load_model(tmp_path)
    del tensors["layers.0.w_h" + SCALE]
    save_tensors(tmp_path / WEIGHTS_FILE, tensors)
    with pytest.raises(InputError, match=r"tensor layers.0.w_h.scale is absent"):
        load_model(tmp_path)


def test_a_plain_model_stays_readable_by_the_first_version(tmp_path):
    save_model(tmp_path, build_model(ModelConfig(hidden_size=4), 0), text_profile("raw"), {})
    assert json.loads((tmp_path / CONFIG_FILE).read_text())["format_version"] == 1
