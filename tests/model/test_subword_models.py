"""Models of a vocabulary's tokens: saved, read, scored, sampled from."""

import json
import sys

import numpy as np
import pytest
import torch

from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.engine.featurizer import SentimentFeaturizer
from mlstm_sentiment.engine.sampling import SamplingConfig, generate
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.tokenizer import START, TOKENIZER_FILE, Continuations
from model.inference.weights import load_model, save_model
from model.layers import mlstm
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.support.loaded import as_loaded

PROFILE = text_profile("openai")
TEXTS = [review.text for review in synthetic_reviews(6, seed=9)]


@pytest.fixture
def folder(tmp_path, subword_model, subwords):
    save_model(tmp_path / "model", subword_model, PROFILE, {}, tokenizer=subwords)
    return tmp_path / "model"


@pytest.mark.parametrize("quantized", [False, True])
def test_a_model_travels_with_its_vocabulary(tmp_path, subword_model, subwords, quantized):
    save_model(tmp_path, subword_model, PROFILE, {}, tokenizer=subwords, quantized=quantized)
    loaded = load_model(tmp_path)
    assert loaded.tokenizer.fingerprint == subwords.fingerprint
    for name, tensor in subword_model.state_dict().items():
        close = torch.allclose(loaded.model.state_dict()[name], tensor, atol=0.02)
        assert close if quantized else torch.equal(loaded.model.state_dict()[name], tensor), name
    assert loaded.encode("It works.").tolist() == subwords.encode(b"\n It works. ").tolist()


def test_the_size_is_the_corpuss_or_refused():
    for given in (ModelConfig(), ModelConfig(vocabulary_size=400)):
        assert given.for_vocabulary(400).resolved_vocabulary_size == 400
    with pytest.raises(InputError, match="vocabulary_size is 300, the corpus's tokenizer has 400"):
        ModelConfig(vocabulary_size=300).for_vocabulary(400)


def test_another_vocabulary_is_refused(folder):
    content = (folder / TOKENIZER_FILE).read_bytes()
    (folder / TOKENIZER_FILE).write_bytes(content[:-1])
    with pytest.raises(InputError, match=r"does not match the digest in config\.json"):
        load_model(folder)


def test_a_vocabulary_of_another_size_is_refused(folder):
    description = json.loads((folder / "config.json").read_text())
    description["architecture"]["vocabulary_size"] = 300
    (folder / "config.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match="300 tokens, but its tokenizer has 400"):
        load_model(folder)


def test_without_sentencepiece_the_error_says_how_to_install_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(InputError, match="pip install sentencepiece"):
        load_model(folder)


def test_features_are_the_state_after_the_tokens(folder, subwords):
    features = SentimentFeaturizer.from_pretrained(folder).transform(TEXTS)
    model = load_model(folder).model
    for text, row in zip(TEXTS, features, strict=True):
        tokens = torch.from_numpy(subwords.encode(PROFILE.encode(text)).astype(np.int64))
        with torch.inference_mode():
            _, state = model.hidden(tokens[None], model.initial_state(1))
        np.testing.assert_allclose(row, state.c[-1, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_a_projection_token_by_token_changes_nothing(subwords, monkeypatch, backend):
    """Large vocabularies are not tabulated: the same losses and gradients, up to rounding."""
    config = ModelConfig(hidden_size=8, vocabulary_size=400, backend=backend)
    tokens = torch.from_numpy(subwords.encode("".join(TEXTS).encode()).astype(np.int64))[None, :60]
    results = []
    for most in (1024, 10):
        monkeypatch.setattr(mlstm, "MOST_TABULATED", most)
        model = build_model(config, seed=2)
        logits, _ = model(tokens, model.initial_state(1))
        logits.logsumexp(-1).sum().backward()
        results.append([logits.detach(), *(p.grad for p in model.parameters())])
    assert model.prepare_weights().table.shape == (400, 64)
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def write(model, subwords, opening=b"\n I thought", length=150, **options):
    config = SamplingConfig(length=length, **options)
    return "".join(c for _, c in generate(as_loaded(model, subwords), opening, config))


@pytest.mark.parametrize("length", [1, 2, 3, 150])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_is_utf8_of_the_length_asked_for(subword_model, subwords, length, seed):
    text = write(subword_model, subwords, length=length, seed=seed, temperature=3.0)
    assert len(text.encode()) == length
    assert "\ufffd" not in text or "\ufffd".encode() in text.encode()


def test_a_text_begins_with_the_space_of_its_opening_and_ends_at_a_stop(subword_model, subwords):
    """The likeliest token that begins with a space, without its space."""
    _, state = subword_model.hidden(
        torch.from_numpy(subwords.encode(b"\n I thought").astype(np.int64))[None],
        subword_model.initial_state(1),
    )
    logits = subword_model.decode(state.h[-1], subword_model.prepare_weights())[0].detach().numpy()
    begins = np.array([spelling.startswith(b" ") for spelling in subwords.spellings])
    expected = subwords.spellings[np.where(begins, logits, -np.inf).argmax()].decode()
    text = write(subword_model, subwords, b"\n I thought ", temperature=0)
    assert (" " + text).startswith(expected)
    whole = write(subword_model, subwords, length=400)
    for size in (1, 2, 3):
        stop = whole[100 : 100 + size]
        config = SamplingConfig(length=400)
        pieces = generate(as_loaded(subword_model, subwords), b"\n I thought", config, stop=stop)
        assert "".join(c for _, c in pieces) == whole[: whole.index(stop)]


def test_the_automaton_follows_a_token_as_it_follows_its_bytes(subwords):
    of_bytes = Continuations([bytes([value]) for value in range(256)])
    of_tokens = Continuations(subwords.spellings)
    for state in range(8):
        for token, spelling in enumerate(subwords.spellings):
            room, now, possible = 9, state, bool(spelling)
            for byte in spelling:
                possible = possible and bool(of_bytes.allowed(now, room)[byte])
                if possible:
                    now, room = of_bytes.next_state(now, byte), room - 1
            assert bool(of_tokens.allowed(state, 9)[token]) == possible, (state, spelling)
            if possible:
                assert of_tokens.next_state(state, token) == now
    assert not of_tokens.allowed(START, 9)[subwords.spellings.index(b"")]
