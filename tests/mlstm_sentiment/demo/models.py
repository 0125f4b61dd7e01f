"""Models small enough for a test, and Python's values for what the page shows."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.interface import TextModel
from mlstm_sentiment.engine.kinds import Pooling
from mlstm_sentiment.engine.request import Clamp
from mlstm_sentiment.head.head import Familiarity, Head
from mlstm_sentiment.head.learning import Corrections, learn
from mlstm_sentiment.head.steps import Language, Neutral, Ngrams
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.tokenizer import BYTES, START, Continuations
from mlstm_sentiment.units.unit_traces import _values_per_byte
from model.inference.weights import save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.conftest import small_vocabulary
from tests.support.heads import STAR_POOLING, bag_of_ngrams, regression, star_head
from transfer.finetuning.heads import Heads, HeadsConfig, build_heads


def small_model(
    folder, profile="openai", newline=-1e3, kind="bytes", bits=8, decoder_bits=None, **architecture
) -> TextModel:
    """An untrained model that is sure of what it writes, and that it never ends a line.

    Wider recurrent weights would make it chaotic. kind: of its tokens; subwords are 400. bits: of
    its integers; None: floats. decoder_bits: of the decoder's; None: the same.
    """
    tokenizer = BYTES if kind == "bytes" else small_vocabulary(kind, 400)
    sizes = {"hidden_size": 20, "embedding_size": 7, "vocabulary_size": tokenizer.vocabulary_size}
    model = build_model(ModelConfig(**sizes | architecture), seed=3).eval()
    model.decoder.weight.data.mul_(20)
    ends = [n for n, spelling in enumerate(tokenizer.spellings) if b"\n" in spelling]
    model.decoder.bias.data[ends] = newline
    stored = {"tokenizer": tokenizer, "quantized": bits is not None, "bits": bits or 8}
    stored["decoder_bits"] = decoder_bits
    save_model(folder, model, text_profile(profile), {}, **stored)
    return Engine.load(folder)


def small_classifier(loaded: TextModel, pooling: Sequence[Pooling] = ("last",)) -> Head:
    """A binary classifier with a weight for every unit."""
    size = loaded.architecture.hidden_size * len(pooling)
    coefficients = np.random.default_rng(5).normal(size=size).astype(np.float32)
    poles = ("negative", "positive")
    return regression(coefficients, 0.25, poles, 4, -1, "digest", pooling=tuple(pooling))


def small_stars(loaded: TextModel, ngrams: Ngrams | None = None) -> Head:
    """A classifier of one to five stars, with two heads for each."""
    heads = small_heads(loaded, HeadsConfig(heads_per_class=2), len(STAR_POOLING), 5)
    return star_head(
        heads=heads,
        ngrams=ngrams,
        neutral=Neutral(2, slope=0.7, offset=-0.2),
        doubt=(0.4, 0.6),
        model_digest="digest",
    )


def small_stars_and_ngrams(loaded: TextModel) -> Head:
    """The same with weights for n-grams of sides and of neutral, and for letters."""
    draw = np.random.default_rng(6)
    sides, sideless, letters = (draw.integers(-127, 128, 997, np.int8) for _ in range(3))
    head = small_stars(loaded, bag_of_ngrams(sides, 0.002))
    first = head.steps.index(next(step for step in head.steps if isinstance(step, Ngrams)))
    more = (Ngrams(sideless, 0.003, (0.0, 0.0, 1.0, 0.0, 0.0)), Language(letters, 0.01, -0.1))
    steps = (*head.steps[: first + 1], *more, *head.steps[first + 1 :])
    return replace(head, steps=steps, familiarity=Familiarity(bits_per_character=0.1, bits=0.1))


def small_fine_tuned(loaded: TextModel) -> Head:
    """Two classes behind hidden layers."""
    heads = small_heads(loaded, HeadsConfig(hidden_layers=(6, 5)), 1, 2)
    return heads.as_head(("bad", "good"), exclusive=True, model_digest="digest")


def small_learned(loaded: TextModel) -> Head:
    """What the same stars learn from random answers."""
    head, draw = small_stars(loaded), np.random.default_rng(7)
    labels = draw.choice(["negative", "neutral", "positive"], 60).tolist()
    features = draw.normal(size=(60, head.features))
    return learn(head, features, Corrections([""] * 60, labels, Counter())).head


def small_heads(loaded: TextModel, config: HeadsConfig, poolings: int, classes: int) -> Heads:
    size = loaded.architecture.hidden_size * poolings
    heads = build_heads(config, size, classes, seed=1).eval()
    features = torch.randn(50, size, generator=torch.Generator().manual_seed(2)) / 3
    heads.standardize_by(features + 0.1)
    return heads


def python_says(
    model: TextModel, classifier: Head | None, texts: Sequence[str], unit: int
) -> list[dict[str, Any]]:
    """Return the unit after every byte of each text, and the log-odds that it ends with.

    Also the probability of neutral, and whether the text costs more bits than familiar ones. The
    value of a token is that of each of its bytes.
    """
    tokens = list(map(model.encode, texts))
    cells = model.read(tokens, (), state="cell", units=[unit]).unit_states
    says = [
        {"values": _values_per_byte(model.tokenizer, each, v)[:, 0], "odds": None, "neutral": None}
        for each, v in zip(tokens, cells, strict=True)
    ]
    if classifier is not None:
        known = classifier.familiarity
        kind = classifier.kind
        reading = model.read(tokens, kind.poolings, state=kind.state, familiarity=known)
        cleaned = [model.profile.encode(text).decode() for text in texts]
        answer = classifier.answer(reading.features(kind.poolings), cleaned)
        for row, each in enumerate(says):
            each["odds"] = answer.scores[row]
            each["neutral"] = None if answer.neutral is None else answer.neutral[row]
            is_unfamiliar = known is not None and bool(reading.unfamiliar[row])
            is_foreign = answer.foreign is None or bool(answer.foreign[row])
            each["is_unfamiliar"] = is_unfamiliar and is_foreign
    return says


def python_writes(model: TextModel, text: str, length: int, clamp: Clamp | None) -> str:
    """Return the likeliest characters after a text, clamped from there on.

    (`generate` clamps a unit from the first byte of its prompt on, and the page from the end of
    what has been typed.)
    """
    spellings = model.tokenizer.spellings
    utf8 = Continuations(spellings)
    opening = model.tokenizer.encode(model.profile.opening(text))
    now = model.advance(model.initial_state(), [opening])
    if clamp is not None:
        now.c[:, -1, clamp.unit] = clamp.cell
    written, state = bytearray(), START
    while state != START or len(written.decode()) < length:
        scores = np.where(utf8.allowed(state, 100), model.next_token(now)[0], -np.inf)
        token = int(scores.argmax())
        written += spellings[token]
        state = utf8.next_state(state, token)
        now = model.advance(now, [np.array([token])], clamp)
    return written.decode()[:length]


def part(page: str, name: str) -> str:
    """Return what one element of the page holds."""
    (element,) = re.findall(rf'<script type="[^"]*" id="{name}">(.*?)</script>', page, re.DOTALL)
    return element


def about(page: str) -> dict[str, Any]:
    """Return the page's description of its model."""
    return json.loads(part(page, "data"))
