"""Models small enough for a test, and Python's values for what the page shows."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from model.classifiers.head import Head
from model.classifiers.kinds import STAR_POOLING
from model.classifiers.steps import Neutral, Ngrams
from model.engine.kinds import Pooling
from model.engine.request import Clamp
from model.engine.sampling import Stepper
from model.files.quantization import dequantize, quantize
from model.inference.weights import LoadedModel, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.text.profiles import text_profile
from model.text.tokenizer import BYTES, START, Continuations
from model.units.trace import trace, values_per_byte
from tests.conftest import small_vocabulary
from tests.support.heads import bag_of_ngrams, regression, star_head
from transfer.finetuning.heads import Heads, HeadsConfig, build_heads

POOLS = {"last": lambda v: v[-1], "mean": lambda v: v.mean(0), "max": lambda v: v.max(0)}
POOLS["min"] = lambda v: v.min(0)


def small_model(
    folder, profile="openai", newline=-1e3, kind="bytes", **architecture
) -> LoadedModel:
    """An untrained model that is sure of what it writes, and that it never ends a line.

    Wider recurrent weights would make it chaotic. kind: of its tokens; subwords are 400.
    """
    tokenizer = BYTES if kind == "bytes" else small_vocabulary(kind, 400)
    sizes = {"hidden_size": 20, "embedding_size": 7, "vocabulary_size": tokenizer.vocabulary_size}
    model = build_model(ModelConfig(**sizes | architecture), seed=3).eval()
    model.decoder.weight.data.mul_(20)
    ends = [n for n, spelling in enumerate(tokenizer.spellings) if b"\n" in spelling]
    model.decoder.bias.data[ends] = newline
    save_model(folder, model, text_profile(profile), {}, tokenizer=tokenizer)
    return LoadedModel(model, text_profile(profile), folder, tokenizer=tokenizer)


def small_classifier(loaded: LoadedModel, pooling: Sequence[Pooling] = ("last",)) -> Head:
    """A binary classifier with a weight for every unit."""
    size = loaded.model.config.hidden_size * len(pooling)
    coefficients = np.random.default_rng(5).normal(size=size).astype(np.float32)
    poles = ("negative", "positive")
    return regression(coefficients, 0.25, poles, 4, -1, "digest", pooling=tuple(pooling))


def small_stars(loaded: LoadedModel, ngrams: Ngrams | None = None) -> Head:
    """A classifier of one to five stars, with two heads for each."""
    heads = small_heads(loaded, HeadsConfig(heads_per_class=2), len(STAR_POOLING), 5)
    return star_head(
        heads=heads,
        ngrams=ngrams,
        neutral=Neutral(2, slope=0.7, offset=-0.2),
        doubt=(0.4, 0.6),
        model_digest="digest",
    )


def small_stars_and_ngrams(loaded: LoadedModel) -> Head:
    """The same with weights for n-grams."""
    weights = np.random.default_rng(6).integers(-127, 128, 997, np.int8)
    return small_stars(loaded, bag_of_ngrams(weights, 0.002))


def small_fine_tuned(loaded: LoadedModel) -> Head:
    """Two classes behind hidden layers."""
    heads = small_heads(loaded, HeadsConfig(hidden_layers=(6, 5)), 1, 2)
    return heads.as_head(("bad", "good"), exclusive=True, model_digest="digest")


def small_heads(loaded: LoadedModel, config: HeadsConfig, poolings: int, classes: int) -> Heads:
    size = loaded.model.config.hidden_size * poolings
    heads = build_heads(config, size, classes, seed=1).eval()
    features = torch.randn(50, size, generator=torch.Generator().manual_seed(2)) / 3
    heads.standardize_by(features + 0.1)
    return heads


def as_8_bit(loaded: LoadedModel) -> LoadedModel:
    """The model with the weights that the page has."""
    model = build_model(loaded.model.config, seed=0).eval()
    weights = loaded.model.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    model.load_state_dict(dequantize(quantize(weights), shapes))
    return LoadedModel(model, loaded.profile, loaded.folder, tokenizer=loaded.tokenizer)


def python_says(
    loaded: LoadedModel, classifier: Head | None, texts: Sequence[str], unit: int
) -> list[dict[str, Any]]:
    """Return the unit after every byte of each text, and the log-odds that it ends with.

    Also the probability of neutral, and what the text costs, in bits. The value of a token is that
    of each of its bytes.
    """
    tokens = list(map(loaded.encode, texts))
    values = trace(loaded.model, tokens, [unit])  # [n, 1] each
    odds: Sequence[float | None] = [None] * len(texts)
    neutral: Sequence[float | None] = [None] * len(texts)
    if classifier is not None:
        states = trace(loaded.model, tokens, state=classifier.kind.state)  # [n, H] each
        pools = [POOLS[pooling] for pooling in classifier.kind.poolings]
        features = np.stack([np.concatenate([pool(v) for pool in pools]) for v in states])
        cleaned = [loaded.profile.encode(text).decode() for text in texts]
        answer = classifier.answer(features.astype(np.float32), cleaned)
        odds = answer.scores.tolist()
        if answer.neutral is not None:
            neutral = answer.neutral.tolist()
    bits = read_in_order(loaded.model, tokens).bits
    per_byte = [
        values_per_byte(loaded.tokenizer, each, v) for each, v in zip(tokens, values, strict=True)
    ]
    return [
        {"values": v[:, 0], "odds": o, "neutral": n, "bits": b}
        for v, o, n, b in zip(per_byte, odds, neutral, bits, strict=True)
    ]


def python_writes(loaded: LoadedModel, text: str, length: int, clamp: Clamp | None) -> str:
    """Return the likeliest characters after a text, clamped from there on.

    (`generate` clamps a unit from the first byte of its prompt on, and the page from the end of
    what has been typed.)
    """
    spellings = loaded.tokenizer.spellings
    reader, utf8 = Stepper(loaded.model), Continuations(spellings)
    for token in loaded.tokenizer.encode(loaded.profile.opening(text)):
        reader.step(np.array([token]))
    if clamp is not None:
        reader.clamp, reader.state = clamp, clamp.apply(reader.state)
    written, state = bytearray(), START
    while state != START or len(written.decode()) < length:
        scores = np.where(utf8.allowed(state, 100), reader.logits()[0], -np.inf)
        token = int(scores.argmax())
        written += spellings[token]
        state = utf8.next_state(state, token)
        reader.step(np.array([token]))
    return written.decode()[:length]


def part(page: str, name: str) -> str:
    """Return what one element of the page holds."""
    (element,) = re.findall(rf'<script type="[^"]*" id="{name}">(.*?)</script>', page, re.DOTALL)
    return element


def about(page: str) -> dict[str, Any]:
    """Return the page's description of its model."""
    return json.loads(part(page, "data"))
