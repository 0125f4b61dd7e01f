"""The page's worker and its WebAssembly against Python, without a browser."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mlstm_sentiment.demo.page import FOLDER, demo_page
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.request import Clamp
from mlstm_sentiment.engine.sources import SOURCE, digest_of_sources
from mlstm_sentiment.head.head_files import needed_classifier
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.subwords import _PROBES
from tests.mlstm_sentiment.demo.models import (
    about,
    python_says,
    python_writes,
    small_classifier,
    small_fine_tuned,
    small_learned,
    small_model,
    small_stars,
    small_stars_and_ngrams,
)
from tests.support.runs import done
from tests.support.texts import texts_of_many_kinds

NODE = shutil.which("node")
CLANG = shutil.which("clang-14") and shutil.which("wasm-ld-14")
# The states are equal bit for bit; sums of a head's float64 may be in another order.
SAME = {"rtol": 1e-10, "atol": 1e-10}
FLOATS = {"rtol": 1e-5, "atol": 1e-5}  # fp32 sums in another order, over some hundred steps
TIMEOUT = 100  # seconds for all orders, after which the worker has to be at rest
TEXT = "It came in March, and I have worn it every day since. 😀 رائع جدا! " * 3
ARCHITECTURES = {
    "one layer": {},
    "two layers without weight norm": {"layers": 2, "weight_norm": False},
    "units and columns of full registers": {"hidden_size": 64, "embedding_size": 64, "bits": 5},
    "raw texts": {"profile": "raw", "bits": 6, "decoder_bits": 8},
    "pieces of byte-pair encoding": {"kind": "bpe", "decoder_bits": 6},
    "pieces of a unigram model, two layers": {"kind": "unigram", "layers": 2},
    "floats": {"bits": None},
}

WORDS = [
    "Don't! It's 5/5 — naïve CAFÉ, ½ ﬁne ﬂavour…",
    "ΟΔΟΣ İstanbul ǅ ß ẞ ŉ",
    "👍🏽 ❤️ ★★★☆☆ :-) <3 100%",
    "很好 とても良い アイ 한국어 ไทย हिन्दी",
    "Tom &amp; Jerry, it&#39;s &lt;3 &quot;great&quot; caf&eacute;&nbsp;5/5",
    "tab\tline\u2028no\u00a0break\u200bzero\ufeffmark under_score a\u0301\u0323\u0301",
    "",
]
needs_node = pytest.mark.skipif(NODE is None, reason="needs node, to run WebAssembly")


def answers_of(page: str, tmp_path: Path, orders: list[dict]) -> list[list[dict]]:
    """Return what the page's worker answers to orders."""
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [NODE, Path(__file__).with_name("worker.mjs"), path]
    process = subprocess.run(
        command, input=json.dumps(orders), capture_output=True, text=True, timeout=TIMEOUT
    )
    done(process)
    return json.loads(process.stdout)


def reading(loaded, text: str) -> dict:
    """An order to read a text."""
    profile = loaded.profile
    suffix = list(profile.suffix.encode())
    return {"order": "read", "bytes": list(profile.opening(text)), "suffix": suffix}


def values_of(messages: list[dict], before: list[float]) -> list[float]:
    """Return the unit after every byte, where an earlier reading had said `before`."""
    values = list(before)
    for message in messages:
        values[message["from"] :] = message["values"]
    return values


@pytest.fixture
def loaded(tmp_path):
    return small_model(tmp_path / "model")


@needs_node
@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_it_reads_and_writes_as_python_does(tmp_path, architecture):
    loaded = small_model(tmp_path / "model", **architecture)
    classifier = small_classifier(loaded, ("last", "mean", "max", "min"))
    page = demo_page(loaded, classifier, "Title")
    writing = {"order": "write", "length": 40, "temperature": 0, "clamp": None}
    clamped = {**writing, "clamp": {"unit": 6, "value": 2.5}}
    first, *writings = answers_of(page, tmp_path, [reading(loaded, TEXT), writing, clamped])

    close = FLOATS if architecture.get("bits", 8) is None else SAME
    expected = python_says(loaded, classifier, [TEXT], classifier.neuron)[0]
    values = [*values_of(first, []), first[-1]["verdict"]["value"]]
    inside = len(loaded.profile.opening(TEXT)) - 1
    ends = [*range(inside + 1), len(expected["values"]) - 1]
    np.testing.assert_allclose(values, expected["values"][ends], **close)
    np.testing.assert_allclose(first[-1]["verdict"]["odds"], expected["odds"], **close)
    for messages, clamp in zip(writings, [None, Clamp(unit=6, cell=2.5)], strict=True):
        assert written(messages) == python_writes(loaded, TEXT, 40, clamp)


@needs_node
@pytest.mark.parametrize("kind", ["bpe", "unigram", "shipped"])
def test_it_splits_texts_as_sentencepiece_does(tmp_path, kind):
    if kind == "shipped":
        loaded = Engine.load("amazon_subword_1024")
    else:
        loaded = small_model(tmp_path / "model", kind=kind)
    draw = random.Random(3)
    letters = "aabcdehilnorst  \u2581é😀\n."
    texts = [
        *(*texts_of_many_kinds(60), *_PROBES, TEXT, "", " ", "w" * 3000),
        *("\u2581\u2581 a\u2581 ", "  two  spaces "),
        *("".join(draw.choices(letters, k=draw.randint(1, 60))) for _ in range(300)),
    ]
    orders = [{"order": "tokens", "bytes": list(text.encode())} for text in texts]
    page = demo_page(loaded, None, "Title")
    assert "subword tokens" in page
    answers = answers_of(page, tmp_path, orders)
    for text, tokens in zip(texts, answers, strict=True):
        assert tokens == loaded.tokenizer.encode(text.encode()).tolist(), repr(text)


@needs_node
@pytest.mark.parametrize("name", ["default_small", "amazon_1024", "amazon_subword_1024"])
def test_page_and_package_say_the_same_of_a_hundred_texts(tmp_path, name):
    """Unit, log-odds, neutral and unfamiliar; labels: see test_one_answer.py."""
    model = Engine.load(name)
    fitted = needed_classifier(model)
    page = demo_page(model, fitted, "Title")
    texts = [text for text in texts_of_many_kinds() if len(text) < 300][:100]
    assert len(texts) == 100
    orders = [{**reading(model, text), "slot": n} for n, text in enumerate(texts)]
    answers = answers_of(page, tmp_path, orders)
    said = python_says(model, fitted, texts, about(page)["unit"])
    for text, messages, expected in zip(texts, answers, said, strict=True):
        verdict = messages[-1]["verdict"]
        bytes_read = len(model.profile.opening(text))
        assert values_of(messages, []) == expected["values"][:bytes_read].tolist(), text
        assert verdict["value"] == expected["values"][-1], text
        np.testing.assert_allclose(verdict["odds"], expected["odds"], **SAME, err_msg=text)
        if fitted.has_neutral:
            neutral = 1 / (1 + np.exp(-verdict["neutral"]))
            np.testing.assert_allclose(neutral, expected["neutral"], **SAME, err_msg=text)
        if fitted.familiarity is not None:
            assert verdict["isUnfamiliar"] == expected["is_unfamiliar"], text
    if fitted.familiarity is not None:
        assert {expected["is_unfamiliar"] for expected in said} == {True, False}
    odds = [messages[-1]["verdict"]["odds"] for messages in answers]
    assert min(odds) < -1 < 1 < max(odds)


@needs_node
@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_an_edit_reads_what_changed_and_no_more(tmp_path, kind):
    """Subwords that follow an edit may split differently, and so may those that precede it."""
    loaded = small_model(tmp_path / "model", kind=kind)
    classifier = small_classifier(loaded, ("mean",))
    texts = [TEXT, TEXT + "x", TEXT[:150] + "y" + TEXT[151:], TEXT[:150], "", TEXT, TEXT + " "]
    page = demo_page(loaded, classifier, "Title")
    answers = answers_of(page, tmp_path, [reading(loaded, text) for text in texts])
    values = []
    for text, messages in zip(texts, answers, strict=True):
        read = len(loaded.profile.opening(text))
        values = values_of(messages, values)[:read]
        expected = python_says(loaded, classifier, [text], classifier.neuron)[0]
        np.testing.assert_allclose(values, expected["values"][:read], **SAME)
        np.testing.assert_allclose(messages[-1]["verdict"]["odds"], expected["odds"], **SAME)
    size, same = len(loaded.profile.opening(TEXT)), len(loaded.profile.opening(TEXT[:150]))
    # What is added is read alone; one in the middle from the state kept before it.
    if kind == "bytes":
        assert [messages[0]["from"] for messages in answers[:3]] == [0, size, same // 64 * 64]


@needs_node
@pytest.mark.parametrize(
    "make", [small_stars, small_stars_and_ngrams, small_fine_tuned, small_learned]
)
def test_heads_say_what_they_say_in_python(tmp_path, make, loaded):
    classifier = make(loaded)
    page = demo_page(loaded, classifier, "Title")
    texts = [TEXT, *WORDS, "word " * 1000, WORDS[0]]
    answers = answers_of(page, tmp_path, [reading(loaded, text) for text in texts])
    for messages, said in zip(answers, python_says(loaded, classifier, texts, 0), strict=True):
        verdict = messages[-1]["verdict"]
        np.testing.assert_allclose(verdict["odds"], said["odds"], **SAME)
        assert verdict["isUnfamiliar"] == said["is_unfamiliar"]
        if classifier.has_neutral:
            neutral = 1 / (1 + np.exp(-verdict["neutral"]))
            np.testing.assert_allclose(neutral, said["neutral"], **SAME)
    loaded.profile = text_profile("raw")
    expected = python_says(loaded, classifier, ["\n It "], 0)[0]["odds"]  # the word has ended
    np.testing.assert_allclose(answers[0][0]["odds"][4], expected, **SAME)


@needs_node
def test_an_edit_counts_the_words_that_are_there_now(tmp_path, loaded):
    page = demo_page(loaded, small_stars_and_ngrams(loaded), "Title")
    texts = [TEXT, TEXT[:150] + "y " + TEXT[151:], TEXT[:70], TEXT[:100] + " new words here"]
    answers = answers_of(page, tmp_path, [reading(loaded, text) for text in texts])
    for text, messages in zip(texts, answers, strict=True):
        (anew,) = answers_of(page, tmp_path, [reading(loaded, text)])
        first, odds = messages[0]["from"], [o for message in messages for o in message["odds"]]
        assert odds == [o for message in anew for o in message["odds"]][first:]
        assert messages[-1]["verdict"] == anew[-1]["verdict"]


@needs_node
def test_two_texts_side_by_side_keep_their_own_words(tmp_path, loaded):
    page = demo_page(loaded, small_stars_and_ngrams(loaded), "Title")
    texts = ["abc defg hi", "xyz uvwx yz"]  # words end at the same bytes
    slots = [{**reading(loaded, text), "slot": text} for text in (*texts, *texts)]
    first, second, *again = answers_of(page, tmp_path, slots)
    (one,) = answers_of(page, tmp_path, [reading(loaded, texts[1])])
    assert second[-1]["odds"] == one[-1]["odds"] != first[-1]["odds"]
    assert [messages[-1]["verdict"] for messages in again] == [
        messages[-1]["verdict"] for messages in (first, second)
    ]


@needs_node
def test_another_unit_reads_the_text_again(tmp_path, loaded):
    page = demo_page(loaded, None, "Title", unit=1)
    orders = [reading(loaded, TEXT), {"order": "unit", "unit": 9}]
    _, messages = answers_of(page, tmp_path, orders)
    expected = python_says(loaded, None, [TEXT], 9)[0]["values"]
    np.testing.assert_allclose(values_of(messages, []), expected[:-1], **SAME)
    assert messages[-1]["verdict"]["odds"] is None


def written(messages: list[dict]) -> str:
    """Return the text that a writing order was answered with."""
    return "".join(message.get("written", "") for message in messages)


@needs_node
def test_the_end_of_a_review_ends_the_writing(tmp_path):
    loaded = small_model(tmp_path / "model", newline=1e3)
    page = demo_page(loaded, None, "Title")
    order = {"order": "write", "length": 5, "temperature": 1, "clamp": None}
    _, messages = answers_of(page, tmp_path, [reading(loaded, "a"), order])
    assert written(messages) == ""
    assert messages[-1]["ended"]


@needs_node
def test_writing_ends_with_a_text_that_is_removed_before_it_is_read(tmp_path, loaded):
    page = demo_page(loaded, None, "Title")
    removed = {"slot": 1, "unanswered": True}
    writing = {"order": "write", "length": 5, "temperature": 0, "clamp": None, "slot": 1}
    orders = [
        {**reading(loaded, "a" * 500_000), **removed},  # far more than one slice of time reads
        {**writing, **removed},
        {"order": "stop", "unanswered": True},
        {"order": "forget", **removed},
        writing,
    ]
    (messages,) = answers_of(page, tmp_path, orders)  # and the process ends: nothing waits any more
    assert written(messages) == ""
    assert messages[-1]["ended"]


def test_the_module_is_that_of_the_engines_sources(tmp_path):
    """After a change of the sources: bash mlstm_sentiment/engine/source/build_wasm.sh."""
    module = (FOLDER / "engine.wasm").read_bytes()
    assert digest_of_sources().encode() in module
    if not CLANG:
        pytest.skip("needs clang-14 and wasm-ld-14 (Debian: clang-14, lld-14)")
    subprocess.run(["bash", SOURCE / "build_wasm.sh", tmp_path / "engine.wasm"], check=True)
    assert (tmp_path / "engine.wasm").read_bytes() == module
