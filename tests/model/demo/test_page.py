"""What is written into the page, without running it."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from model.classifiers.classifier import Classifier
from model.classifiers.fitted import find_classifier, load_fitted
from model.demo import write_demo
from model.demo.page import demo_page
from model.errors import InputError
from model.files.quantization import unpack
from model.files.weights import load_model
from model.text.profiles import text_profile
from tests.model.demo.models import (
    about,
    as_8_bit,
    part,
    small_classifier,
    small_fine_tuned,
    small_model,
    small_stars,
)
from tests.support.runs import assert_refused, done, run

TITLE = 'Ann & Bob\'s "</script><b>{{style}}</b>"'


@pytest.fixture
def loaded(tmp_path):
    return small_model(tmp_path / "small")


class Elements(HTMLParser):
    """Every element by name, and the text of those that are not programs."""

    def __init__(self, page):
        super().__init__()
        self.names, self.texts = [], {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)

    def handle_data(self, data):
        self.texts.setdefault(self.names[-1] if self.names else "", data)


def tensor(page, name, dtype, *shape):
    start = about(page)["places"][name]
    data = base64.b64decode(part(page, "weights"))
    assert start % 16 == 0
    values = np.frombuffer(data, dtype, int(np.prod(shape)), start)
    return torch.from_numpy(values.reshape(shape).copy())


def matrix(page, name, rows, columns):
    """A matrix as the page multiplies by it."""
    whole = tensor(page, name, np.int8, rows, columns)
    return whole.float() * tensor(page, f"{name}.scale", np.float32, rows).unsqueeze(1)


@pytest.mark.parametrize("weight_norm", [True, False])
def test_the_weights_are_those_of_the_8_bit_model(tmp_path, weight_norm):
    H, E, padded = 20, 7, 32
    loaded = small_model(
        tmp_path, weight_norm=weight_norm, hidden_size=H, embedding_size=E, layers=2
    )
    page = demo_page(loaded, small_classifier(loaded), "Title")
    expected = as_8_bit(loaded).model.prepare_weights()
    for index, weights in enumerate(expected.layers):
        wide = 16 if index == 0 else padded
        found = {
            "w_x": matrix(page, f"layers.{index}.w_x", 5 * padded, wide),
            "w_mh": matrix(page, f"layers.{index}.w_mh", padded, padded),
            "w_h": matrix(page, f"layers.{index}.w_h", 4 * padded, padded),
            "b": tensor(page, f"layers.{index}.b", np.float32, 4 * padded),
        }
        for name, values in found.items():
            inside = weights.w_x if name == "w_x" else getattr(weights.recurrent, name)
            assert values.count_nonzero() == inside.count_nonzero()  # what is added is zero
            gates = values.unflatten(0, (-1, padded))[:, :H].flatten(0, 1)
            shown = gates if inside.dim() == 1 else gates[:, : inside.shape[1]]
            torch.testing.assert_close(shown, inside)
    out = matrix(page, "decoder", 256, padded)
    torch.testing.assert_close(out[:, :H], expected.w_out)
    torch.testing.assert_close(tensor(page, "decoder.b", np.float32, 256), expected.b_out)


def test_the_integers_are_those_of_the_shipped_file():
    loaded = load_model("amazon_1024")
    classifier = load_fitted(loaded, find_classifier(loaded), "")
    page = demo_page(loaded, classifier, "Title")
    stored = load_file(loaded.folder / "model.safetensors")
    for name, key in {"layers.0.w_h": "layers.0.w_h", "decoder": "decoder.weight"}.items():
        assert torch.equal(tensor(page, name, np.int8, *stored[key].shape), stored[key])
    scores = tensor(page, "head.0", np.float32, 2, classifier.coefficients.size)
    assert np.array_equal(scores[1], classifier.coefficients)
    head = about(page)["head"]
    assert (head["unit"], head["polarity"]) == (classifier.neuron, classifier.polarity)
    assert head["poles"] == ["negative", "positive"]


def test_the_page_needs_nothing_but_itself(loaded, tmp_path):
    path = tmp_path / "new" / "page.html"
    write_demo(loaded, small_classifier(loaded), path, TITLE)
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttpRequest", page)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_a_title_is_text_whatever_it_holds(loaded):
    elements = Elements(demo_page(loaded, None, TITLE))
    assert elements.texts["title"] == elements.texts["h1"] == TITLE
    assert elements.names.count("script") == 5  # four of data, one program


def test_a_title_of_another_encoding_can_be_written(loaded, tmp_path):
    """As a shell passes the bytes of Latin-1."""
    write_demo(loaded, None, tmp_path / "page.html", "caf\udce9")
    assert "<title>caf?</title>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_model_whose_units_become_nan_is_refused(loaded, monkeypatch):
    monkeypatch.setattr("model.demo.page.trace", lambda model, texts: [np.full((3, 20), np.nan)])
    with pytest.raises(InputError, match="units become NaN or infinite"):
        demo_page(loaded, None, "Title")


def test_a_class_cannot_end_the_script_element(loaded):
    classifier = replace(small_classifier(loaded), classes=("</script>", "<!--<script>"))
    page = demo_page(loaded, classifier, "Title")
    assert about(page)["head"]["poles"] == ["</script>", "<!--<script>"]
    assert "</script>" not in part(page, "data")


def several_classes(loaded):
    H = loaded.model.config.hidden_size
    return Classifier(np.zeros((3, H)), np.zeros(3), ("a", "b", "c"), 0, 1, "digest")


@pytest.mark.parametrize("classifier", [lambda loaded: None, several_classes])
def test_without_two_classes_the_page_shows_units_and_says_so(loaded, classifier):
    page = demo_page(loaded, classifier(loaded), "Title")
    assert "no probability" in page
    described = about(page)
    assert described["head"] is described["vocabulary"] is None
    assert 0 <= described["unit"] < 20
    assert about(demo_page(loaded, None, "Title", unit=7))["unit"] == 7


@pytest.mark.parametrize("make", [small_classifier, small_stars, small_fine_tuned])
def test_the_page_knows_the_threshold(loaded, make):
    page = demo_page(loaded, make(loaded).with_threshold(0.7), "Title")
    assert about(page)["head"]["threshold"] == 0.7


@pytest.mark.parametrize("polarity", [1, -1])
def test_heads_orient_the_unit_of_most_influence(loaded, polarity):
    stars = small_stars(loaded)
    with torch.no_grad():
        stars.heads.heads.weight.zero_()
        stars.heads.heads.weight[4, 13] = 2.0 * polarity  # five stars, the first of two heads
        stars.heads.heads.weight[0, 20 + 6] = 1.0  # one star, by the mean
    head = about(demo_page(loaded, stars, "Title"))["head"]
    assert (head["unit"], head["polarity"]) == (13, polarity)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"cell": "lstm"}}, "cell"),
        ({"profile": text_profile("nvidia")}, "nvidia"),
        ({"unit": 20}, "units 0 to 19"),
    ],
)
def test_a_model_that_the_page_cannot_compute_is_refused(loaded, tmp_path, change, message):
    unit = change.pop("unit", None)
    if "model" in change:
        change["model"] = small_model(tmp_path, **change["model"]).model
    with pytest.raises(InputError, match=message):
        demo_page(replace(loaded, **change), None, "Title", unit=unit)


def test_a_vocabulary_is_part_of_the_page(subwords, subword_model, loaded):
    loaded = replace(loaded, model=subword_model, tokenizer=subwords)
    page = demo_page(loaded, None, "Title")
    vocabulary = about(page)["vocabulary"]
    assert len(vocabulary["pieces"]) == len(vocabulary["scores"]) == subwords.vocabulary_size
    assert len(vocabulary["bytes"]) == 256
    assert "subword tokens" in page


@pytest.mark.parametrize(("model", "bits"), [("amazon_subword_1024", 6), ("default", 5)])
def test_integers_of_few_bits_are_those_of_the_file(model, bits):
    loaded = load_model(model)
    page = demo_page(loaded, None, "Title")
    stored = load_file(loaded.folder / "model.safetensors")
    for name, key in {"layers.0.w_h": "layers.0.w_h", "decoder": "decoder.weight"}.items():
        integers = unpack(stored[key], 1024, bits)
        assert torch.equal(tensor(page, name, np.int8, *integers.shape), integers)


def test_the_script_writes_the_page(loaded, tmp_path):
    path = tmp_path / "page.html"
    command = ("scripts/demo.py", "--model", loaded.folder, "--output", path)
    process = done(run(*command, "--neuron", 3, "--title", "Mine"))
    assert about(path.read_text())["unit"] == 3
    assert str(path) in process.stdout
    assert_refused(run(*command, "--neuron", 20), "units 0 to 19")
