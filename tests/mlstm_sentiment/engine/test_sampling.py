"""Sampling draws from the softmax, within the sets asked for, and writes UTF-8."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from mlstm_sentiment.engine import sampling
from mlstm_sentiment.engine.request import Clamp
from mlstm_sentiment.engine.sampling import (
    SamplingConfig,
    continue_text,
    review_start,
)
from mlstm_sentiment.engine.sampling import (
    _probabilities as probabilities,
)
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.tokenizer import BYTES, START, Continuations
from model.inference.weights import LoadedModel
from model.layers.config import ModelConfig
from model.layers.language_model import build_model

ALL = np.ones((1, 256), dtype=bool)
OPENING = b"\n I thought"
UTF8 = Continuations(BYTES.spellings)


def loaded(model):
    return LoadedModel(model, text_profile("openai"), Path())


def generate(model, opening, config, **options):
    return sampling.generate(loaded(model), opening, config, **options)


def text_of(model, config=None, **options):
    """The first sample, whole."""
    pieces = generate(model, OPENING, config or SamplingConfig(length=120), **options)
    return "".join(characters for sample, characters in pieces if sample == 0)


def logits_of(seed, spread=3.0):
    return np.random.default_rng(seed).normal(size=(1, 256)) * spread


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def test_bytes_are_drawn_as_often_as_the_softmax_says(small_model):
    """First bytes of many samples from one state, against the model's own distribution."""
    state = small_model.initial_state(1)
    for byte in OPENING:
        (logits,), state = small_model(torch.tensor([[byte]]), state)
    ascii_only = softmax(logits[0, :128].detach().double().numpy())  # one byte: no other fits
    count = 10_000
    config = SamplingConfig(length=1, seed=11)
    drawn = np.zeros(128)
    for _, character in generate(small_model, OPENING, config, samples=count):
        drawn[ord(character)] += 1
    assert drawn.sum() == count
    assert chisquare(drawn, ascii_only * count).pvalue > 1e-3


def test_temperature_divides_the_logits_and_zero_takes_the_most_likely_token():
    logits = logits_of(1)
    for temperature in (0.3, 1.0, 2.5):
        chances = probabilities(logits, ALL, SamplingConfig(temperature=temperature))
        np.testing.assert_allclose(chances, softmax(logits / temperature), rtol=1e-12)
    for temperature in (0.0, 1e-300, 5e-324):
        chances = probabilities(logits, ALL, SamplingConfig(temperature=temperature))
        assert np.flatnonzero(chances).tolist() == [logits.argmax()]


@pytest.mark.parametrize("k", [1, 2, 17, 255, 256, 1000])
def test_top_k_is_the_k_likeliest_in_their_proportions(k):
    logits = logits_of(3)
    chances = probabilities(logits, ALL, SamplingConfig(top_k=k))[0]
    top = np.sort(np.argsort(-logits[0])[:k])
    assert np.flatnonzero(chances).tolist() == top.tolist()
    np.testing.assert_allclose(chances[top], softmax(logits[0, top]), rtol=1e-12)


@given(st.integers(0, 10_000), st.floats(1e-6, 1.0), st.floats(0.1, 8.0))
def test_top_p_is_the_smallest_set_that_reaches_p(seed, p, spread):
    logits = logits_of(seed, spread)
    chances = probabilities(logits, ALL, SamplingConfig(top_p=p))[0]
    every = softmax(logits[0])
    top = chances > 0
    if p == 1:
        assert top.all()
        return
    assert every[top].min() >= every[~top].max(initial=0)
    assert every[top].sum() >= p - 1e-12
    assert every[top].sum() - every[top].min() < p + 1e-12
    np.testing.assert_allclose(chances[top], every[top] / every[top].sum(), rtol=1e-9)


def test_top_p_counts_within_the_top_k():
    logits = np.log(np.array([[0.4, 0.3, 0.2, 0.1] + [1e-9] * 252]))
    config = SamplingConfig(top_k=2, top_p=0.5)  # of 4/7 and 3/7, the first one reaches 0.5
    assert np.flatnonzero(probabilities(logits, ALL, config)).tolist() == [0]


def test_the_automaton_is_utf8():
    """All bytes after all prefixes: allowed exactly where Python's decoder can still succeed."""
    fitting = [chr(code).encode() for code in (0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000)]
    fitting += [chr(code).encode() for code in (0xD7FF, 0xE000, 0x10FFFF, 0x40000, 0x0FFF, 0x1000)]
    prefixes = {whole[:size] for whole in fitting for size in range(len(whole))}
    for prefix in prefixes:
        state = START
        for byte in prefix:
            state = UTF8.next_state(state, byte)
        possible = UTF8.allowed(state, 4)
        for byte in range(256):
            assert possible[byte] == can_go_on(prefix + bytes([byte])), (prefix, byte)


@pytest.mark.parametrize(
    "first", ["é", "\u0800", "€", "\ud7ff", "\ue000", "𐀀", "\U00040000", "\U0010ffff"]
)
def test_a_character_is_begun_only_where_it_fits(first):
    """It begins wherever it fits; there is a case for each first byte of UTF-8."""
    state, spelled = START, first.encode()
    for place, byte in enumerate(spelled):
        room = len(spelled) - place
        assert UTF8.allowed(state, room)[byte]
        assert not UTF8.allowed(state, room - 1)[byte]
        state = UTF8.next_state(state, byte)


def can_go_on(data):
    # The middle of a continuation byte's range, so that one tail suits every legal beginning.
    return any(decodes(data + b"\x80" * more) for more in range(4)) or any(
        decodes(data + bytes([second]) + b"\x80" * more)
        for second in (0x80, 0x90, 0xA0)
        for more in range(3)
    )


def decodes(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def wild_model():
    """A model that gives all bytes nearly equal probabilities."""
    return build_model(ModelConfig(hidden_size=4, embedding_size=3), seed=1).eval()


@given(st.integers(0, 1000), st.integers(1, 9), st.sampled_from([0.5, 1.0, 100.0]))
@settings(deadline=None, max_examples=40)
def test_every_length_ends_in_a_whole_character(seed, length, temperature):
    config = SamplingConfig(length=length, seed=seed, temperature=temperature)
    assert len(text_of(wild_model(), config).encode()) == length


def test_many_bytes_of_a_random_model_are_utf8():
    config = SamplingConfig(length=1000, seed=5, temperature=1e6)
    text = text_of(wild_model(), config)
    assert len(text.encode()) == 1000
    sizes = {len(character.encode()) for character in text}
    assert sizes == {1, 2, 3, 4}


def test_the_same_seed_the_same_text_whoever_else_is_drawn(small_model):
    alone = text_of(small_model)
    assert alone == text_of(small_model)
    assert alone == text_of(small_model, samples=3)
    next_seed = text_of(small_model, SamplingConfig(length=120, seed=1))
    texts = ["", "", ""]
    for sample, characters in generate(small_model, OPENING, SamplingConfig(length=120), samples=3):
        texts[sample] += characters
    assert len({*texts, next_seed}) == 4


def test_greedy_follows_the_likeliest_byte(small_model):
    """Every byte is the likeliest of those that may come, by the model in PyTorch."""
    text = text_of(small_model, SamplingConfig(length=60, temperature=0))
    state, where, room = small_model.initial_state(1), START, 60
    for byte in OPENING:
        (logits,), state = small_model(torch.tensor([[byte]]), state)
    for byte in text.encode():
        allowed = torch.from_numpy(UTF8.allowed(where, room))
        assert byte == int(logits[0].where(allowed, -torch.inf).argmax())
        where, room = UTF8.next_state(where, byte), room - 1
        (logits,), state = small_model(torch.tensor([[byte]]), state)


def test_characters_come_while_they_are_drawn(small_model):
    pieces = generate(small_model, OPENING, SamplingConfig(length=10**9))
    assert next(pieces)[0] == 0  # and not after a billion bytes


@pytest.mark.parametrize("layer", [0, 1])
def test_a_clamped_unit_has_its_value_at_every_step(layer):
    model = build_model(ModelConfig(hidden_size=6, embedding_size=4, layers=2), seed=2).eval()
    clamp = Clamp(unit=3, layer=layer, cell=1.5, hidden=-0.25)
    state = loaded(model).initial_state(3, clamp)
    for byte in b"\n held":
        assert (state.c[layer, :, 3] == 1.5).all()
        assert (state.h[layer, :, 3] == -0.25).all()
        assert (state.c[1 - layer, :, 3] != 1.5).all()
        state = loaded(model).advance(state, [np.array([byte])] * 3, clamp)


def test_a_clamp_on_one_half_leaves_the_other_and_steps_from_the_value(small_model):
    """It is compared with the model in PyTorch, with the value set by hand."""
    model, clamp = loaded(small_model), Clamp(unit=5, cell=2.0)
    after = model.advance(model.initial_state(1, clamp), [np.frombuffer(b"abc", np.uint8)], clamp)
    state = small_model.initial_state(1).each(torch.clone)  # its halves are one tensor at first
    with torch.no_grad():
        for byte in b"abc":
            state.c[-1, :, 5] = 2.0
            (logits,), state = small_model(torch.tensor([[byte]]), state)
    np.testing.assert_allclose(after.h, state.h, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.next_token(after), logits, rtol=1e-5, atol=1e-6)
    assert after.c[-1, 0, 5] == 2.0


def test_it_stops_before_the_next_review(small_model):
    config = SamplingConfig(length=2000, seed=3)
    whole = text_of(small_model, config)
    stop = whole[700:702]
    assert text_of(small_model, config, stop=stop) == whole[: whole.index(stop)]
    # A stop that never comes holds nothing back at the end.
    assert text_of(small_model, config, stop=whole[-1] + "\n ") == whole


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("top_p", float("nan")),
        ("top_k", -1),
        ("top_k", True),
        ("length", 0),
        ("length", 2.5),
        ("seed", -1),
    ],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name.replace('_', '-')} is {value}"):
        SamplingConfig(**{name: value})


@pytest.mark.parametrize(
    ("clamp", "words"),
    [
        ({"unit": 12, "cell": 1.0}, "unit 12: the model has units 0 to 11"),
        ({"unit": -1, "cell": 1.0}, "unit -1"),
        ({"unit": True, "cell": 1.0}, "unit True"),
        ({"unit": 0, "layer": 1, "cell": 1.0}, "layer 1: the model has layers 0 to 0"),
        ({"unit": 0}, "at least one"),
        ({"unit": 0, "hidden": float("nan")}, "finite"),
        ({"unit": 0, "cell": "2"}, "cell 2, .*finite"),
        ({"unit": 0, "cell": True}, "cell True, .*finite"),
        ({"unit": 0, "cell": np.ones(2)}, "finite"),
        ({"unit": 0, "hidden": 10**400}, "within 65,504 of zero"),
        ({"unit": 0, "cell": 1e39}, "within 65,504 of zero"),
        ({"unit": 0, "cell": 1.0, "hidden": float("-inf")}, "finite"),
    ],
)
def test_clamps_that_cannot_be_are_refused(small_model, clamp, words):
    with pytest.raises(InputError, match=words):
        generate(small_model, OPENING, SamplingConfig(), clamp=Clamp(**clamp))


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, torch.tensor])
def test_a_unit_is_held_at_a_number_of_any_library(small_model, kind):
    expected = text_of(small_model, clamp=Clamp(unit=0, cell=2.0, hidden=-1.0))
    assert text_of(small_model, clamp=Clamp(unit=0, cell=kind(2), hidden=kind(-1))) == expected


def test_what_cannot_be_written_on_is_refused(small_model):
    for prompt in (None, b"bytes", ["one"]):
        with pytest.raises(InputError, match=f"the prompt is of type {type(prompt).__name__}"):
            continue_text(loaded(small_model), prompt)
    with pytest.raises(InputError, match="samples is 0"):
        continue_text(loaded(small_model), samples=0)
    with pytest.raises(InputError, match="profile raw puts nothing before a text"):
        review_start(text_profile("raw"))
    small_model.decoder.bias.data[3] = torch.nan
    with pytest.raises(InputError, match="damaged"):
        text_of(small_model)


def test_a_transformers_unit_can_be_held_only_in_its_last_layer():
    config = ModelConfig(cell="transformer", hidden_size=8, heads=2, context=4, layers=2)
    model = build_model(config, seed=1).eval()
    for layer in (0, -2):
        with pytest.raises(InputError, match=rf"layer {layer}: .*only in its last layer"):
            loaded(model).initial_state(1, Clamp(unit=3, layer=layer, hidden=1.0))
    high, low = (
        loaded(model).initial_state(1, Clamp(unit=3, layer=1, hidden=value)) for value in (9, -9)
    )
    assert not np.array_equal(loaded(model).next_token(high), loaded(model).next_token(low))


def test_top_p_ends_where_it_is_reached_exactly():
    two = np.isin(np.arange(256), (65, 66))[None]
    chances = probabilities(np.zeros((1, 256)), two, SamplingConfig(top_p=0.5))
    assert np.flatnonzero(chances).tolist() == [65]


def test_a_stop_is_found_after_what_only_began_like_it(small_model):
    with torch.no_grad():
        small_model.decoder.bias[[ord("a"), ord("b")]] = 30.0
    config = SamplingConfig(length=60)
    whole = text_of(small_model, config)
    assert set(whole) == {"a", "b"}
    for stop in ("aab", "abab"):
        assert text_of(small_model, config, stop=stop) == whole[: whole.index(stop)]


def test_a_prompt_is_continued_in_one_call(small_model):
    config, clamp = SamplingConfig(length=20, seed=4), Clamp(unit=3, cell=2.0)
    texts = continue_text(loaded(small_model), " once ", config, samples=2, clamp=clamp)
    pieces = list(generate(small_model, b"\n once", config, samples=2, clamp=clamp))
    assert texts == ["".join(text for n, text in pieces if n == sample) for sample in range(2)]
    assert texts[0] != texts[1]
    (alone,) = continue_text(loaded(small_model))
    assert len(alone.encode()) <= SamplingConfig().length


def test_a_sample_that_has_stopped_waits_for_the_others(small_model):
    config = SamplingConfig(length=60)

    def texts(stop):
        samples = ["", "", ""]
        for sample, characters in generate(small_model, OPENING, config, samples=3, stop=stop):
            samples[sample] += characters
        return samples

    whole = texts("")
    stop = whole[1][5:7]
    ends = [text.partition(stop)[0] for text in whole]
    assert len(set(map(len, ends))) > 1
    assert texts(stop) == ends
