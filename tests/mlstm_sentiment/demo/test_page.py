"""What is written into the page, without running it."""

import base64
import hashlib
import html
import re
from dataclasses import replace

import numpy as np
import pytest

from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.demo import page
from mlstm_sentiment.demo.page import demo_page
from mlstm_sentiment.engine.architecture import Architecture
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.interface import Reading
from mlstm_sentiment.engine.stored import open_model, read_weights
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head import steps
from mlstm_sentiment.text.profiles import text_profile
from tests.mlstm_sentiment.demo.models import (
    about,
    part,
    small_classifier,
    small_fine_tuned,
    small_model,
    small_stars,
)
from tests.support.heads import regression

TITLE = 'Ann & Bob\'s "</script><b>{{style}}</b>" caf\udce9'  # a shell may pass bytes of Latin-1


@pytest.fixture
def loaded(tmp_path):
    return small_model(tmp_path / "small")


@pytest.mark.parametrize("model", ["amazon_1024", "amazon_subword_1024", "default_small"])
def test_the_arrays_are_those_of_the_shipped_file(model):
    page = demo_page(Engine.load(model), None, "Title")
    data, fields = base64.b64decode(part(page, "weights")), about(page)["model"]
    stored = read_weights(open_model(model))
    (layer,) = stored.layers
    for field, matrix in (("decoder", stored.decoder), ("embed", stored.embedding)):
        assert data[fields[field]["data"] :].startswith(matrix.data.tobytes())
    assert data[fields["layer"][0]["h"]["gain"] :].startswith(layer.matrices["h"].gain.tobytes())
    assert len(data) < 1.02 * (stored.folder / "model.safetensors").stat().st_size


def test_the_page_needs_nothing_but_itself(loaded):
    page = demo_page(loaded, small_classifier(loaded), TITLE)
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttpRequest", page)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_a_title_is_text_whatever_it_holds(loaded):
    page = demo_page(loaded, None, TITLE)
    for tag in ("title", "h1"):
        (text,) = re.findall(rf"<{tag}>([^<]*)</{tag}>", page)
        assert html.unescape(text) == TITLE.replace("\udce9", "?")
    assert page.count("<script") == 5  # four of data, one program


def test_a_model_whose_units_become_nan_is_refused(loaded, monkeypatch):
    damaged = Reading(lengths=np.ones(4), max=np.full((4, 20), np.nan), min=np.zeros((4, 20)))
    monkeypatch.setattr(loaded, "read", lambda *_, **__: damaged)
    with pytest.raises(InputError, match="a unit holds NaN or infinity; it is damaged"):
        demo_page(loaded, None, "Title")


def test_the_command_writes_the_page(loaded, tmp_path, capsys):
    path, options = str(tmp_path / "page.html"), ["--neuron", "3", "--title", "Mine"]
    dispatch(["demo", "--model", str(loaded.folder), "--output", path, *options])
    page = (tmp_path / "page.html").read_text()
    assert about(page)["unit"] == 3
    assert "<h1>Mine</h1>" in page
    assert path in capsys.readouterr().out


def test_a_class_cannot_end_the_script_element(loaded):
    classifier = replace(small_classifier(loaded), classes=("</script>", "<!--<script>"))
    page = demo_page(loaded, classifier, "Title")
    assert about(page)["head"]["classes"] == ["</script>", "<!--<script>"]
    assert "</script>" not in part(page, "data")


def several_classes(loaded):
    H = loaded.architecture.hidden_size
    return regression(np.zeros((3, H)), np.zeros(3), ("a", "b", "c"), 0, 1, "digest")


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


def test_the_page_computes_all_steps_of_two_classes_and_refuses_others(loaded):
    assert set(steps.STEPS) - page.STEPS == {"softmax", "one_vs_rest"}  # of more classes
    head = small_classifier(loaded)
    other = replace(head, steps=(head.steps[0], steps.OneVsRest()))
    with pytest.raises(InputError, match="the page cannot compute one_vs_rest"):
        demo_page(loaded, other, "Title")


def test_a_model_that_the_page_cannot_compute_is_refused(loaded):
    with pytest.raises(InputError, match="units 0 to 19"):
        demo_page(loaded, None, "Title", unit=20)
    loaded.profile = text_profile("nvidia")
    with pytest.raises(InputError, match="nvidia"):
        demo_page(loaded, None, "Title")
    loaded.architecture = Architecture(cell="lstm")
    with pytest.raises(InputError, match="its cell is lstm"):
        demo_page(loaded, None, "Title")
