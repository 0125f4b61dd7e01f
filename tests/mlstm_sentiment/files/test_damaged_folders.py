"""Whatever becomes of a model folder's files: it is refused, or it reads texts as models do.

Longer: python -m pytest THIS_FILE --hypothesis-profile long
"""

import contextlib
import hashlib
import json
import os
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.engine.sampling import SamplingConfig, generate
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import WEIGHTS_FILE
from mlstm_sentiment.head.head_files import FOLDER, save_head
from mlstm_sentiment.head.steps import Neutral
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.tokenizer import BYTES, TOKENIZER_FILE
from model.inference.features import features_in_order
from model.inference.weights import load_model, model_digest, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.support.damage import damaged_bytes
from tests.support.heads import bag_of_ngrams, regression, star_head
from transfer.finetuning.heads import HeadsConfig, build_heads

TEXTS = ["good one", "", "caf\u00e9 \u2581"]
NO_TEXT = "good  \u00a0e\u0301\ufb01\U0001f600\t\n\x00 1".encode() + b"\xe9"
# What a description's key may be given: other types, the ends of ranges, words of the formats.
VALUES = st.sampled_from([
    None, True, False, -1, 0, 1, 2, 3, 4, 256, 2**31, 2**32, 2**63, 2**70, 10**300, 0.5, 1.5, 1e308,
    float("nan"), float("inf"), "", "x", "lstm", "bytes", "bpe", "raw", "tweet", "softmax", "heads",
    "F16", "F64", "I8", "BF16", "BOOL", "C64", "F8_E4M3", "F4", "\ud800", "\0", [], {}, [1], [0],
    [2**40], ["a", "b"], ["a", "b", "c"], [[1, 2], 3], {"a": 1},
])  # fmt: skip
NAMES = st.sampled_from(["x", "\ud800", "quantized", "threshold", "link", "vocabulary_size"])


@st.composite
def changed(draw, content):
    """JSON with one value of it changed, removed, added or called otherwise."""
    if not isinstance(content, dict | list) or not content or draw(st.integers(0, 7)) == 0:
        return draw(VALUES)
    keys = list(content) if isinstance(content, dict) else range(len(content))
    key, copy = draw(st.sampled_from(keys)), content.copy()
    change = draw(st.sampled_from(["deeper"] * 5 + ["without", "more"]))
    if change == "deeper":
        copy[key] = draw(changed(content[key]))
    elif change == "without":
        del copy[key]
    elif isinstance(copy, list):
        copy.insert(key, content[key])
    else:
        copy[draw(NAMES)] = draw(VALUES)
    return copy


@st.composite
def damaged(draw, name, content):
    """A file's content after some damage; a safetensors header may still have its length."""
    if name.endswith(".json") and draw(st.booleans()):
        return as_json(draw(changed(json.loads(content))))
    if name.endswith(".safetensors") and draw(st.booleans()):
        end = 8 + int.from_bytes(content[:8], "little")
        header = as_json(draw(changed(json.loads(content[8:end]))))
        return len(header).to_bytes(8, "little") + header + content[end:]
    return draw(damaged_bytes(content))


def as_json(content):
    return json.dumps(content).encode("utf-8", "surrogatepass")


def read_whole(folder):
    """Use a folder as users do: what is not refused must work."""
    loaded = load_model(folder)
    for text in (NO_TEXT, NO_TEXT.decode("utf-8", "ignore").encode()):
        assert loaded.tokenizer.decode(loaded.tokenizer.encode(text)) == text
    features = features_in_order(loaded.model, [loaded.encode(text) for text in TEXTS])
    assert np.isfinite(features).all()
    list(generate(loaded, b"a", SamplingConfig(length=3)))
    answers = SentimentClassifier.from_pretrained(folder).predict_all(TEXTS)
    assert ((answers.probabilities >= 0) & (answers.probabilities <= 1)).all()


def several_labels(digest):
    built = build_heads(HeadsConfig(hidden_layers=(3,), heads_per_class=2), 4, 3, seed=1)
    thresholds = (0.5, 0.4, 0.3)
    return built.as_head(
        ("a", "b", "c"), exclusive=False, thresholds=thresholds, model_digest=digest
    )


def stars(digest):
    bag, neutral = bag_of_ngrams(np.arange(-8, 8), 0.1), Neutral(2)
    return star_head(4, ngrams=bag, neutral=neutral, model_digest=digest)


@pytest.fixture(scope="module", params=["bytes", "int8", "subwords"])
def folder(request, tmp_path_factory, subwords):
    """Each format of a model, each kind of classifier."""
    folder = tmp_path_factory.mktemp("damaged") / "model"
    tokenizer = subwords if request.param == "subwords" else BYTES
    size = tokenizer.vocabulary_size
    config = ModelConfig(hidden_size=4, embedding_size=3, vocabulary_size=size)
    options = {"tokenizer": tokenizer, "quantized": request.param == "int8"}
    save_model(folder, build_model(config, seed=1), text_profile("openai"), {"a": 1}, **options)
    digest = model_digest(load_model(folder).model)
    if request.param == "subwords":
        save_head(folder / FOLDER, several_labels(digest))
    elif request.param == "int8":
        three = regression(np.ones((3, 4)), np.zeros(3), ("a", "b", "c"), 1, 1, digest)
        save_head(folder / FOLDER, three)
    else:
        save_head(folder / FOLDER, stars(digest))
    read_whole(folder)
    return folder


@given(data=st.data())
def test_a_damaged_folder_is_refused_or_sound(folder, data):
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    files = sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file())
    name = data.draw(st.sampled_from(files), label="file")
    content = data.draw(damaged(name, (folder / name).read_bytes()), label="content")
    (copy / name).write_bytes(content)
    if name == TOKENIZER_FILE:  # its digest is no secret
        described = json.loads((copy / "config.json").read_text())
        described["tokenizer_sha256"] = hashlib.sha256(content).hexdigest()
        (copy / "config.json").write_text(json.dumps(described))
    torch.set_num_threads(1)
    with contextlib.suppress(InputError):
        read_whole(copy)


def test_a_pipe_is_not_waited_for(folder):
    copy = folder.with_name("piped")
    shutil.copytree(folder, copy)
    (copy / WEIGHTS_FILE).unlink()
    os.mkfifo(copy / WEIGHTS_FILE)
    with pytest.raises(InputError, match=f"{WEIGHTS_FILE}: is not a file"):
        load_model(copy)
