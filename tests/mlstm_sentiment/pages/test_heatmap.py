"""Characters keep their values, and no text is ever interpreted as HTML."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.interface import Reading
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.pages.heatmap import _as_html, as_ansi, check_outputs, heatmap, write
from mlstm_sentiment.pages.heatmap import _as_json as as_json
from mlstm_sentiment.pages.page import MIDDLE, PALETTES, background
from mlstm_sentiment.text.glyphs import visible
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.units.unit_traces import (
    UnitTrace,
    UnitTraces,
    orientation_of,
    read_texts,
    sentiment_traces,
)
from mlstm_sentiment.units.unit_traces import (
    _poles_of as poles_of,
)
from model.inference.weights import load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.mlstm_sentiment.pages.hostile import NASTY
from tests.support.heads import regression


@pytest.fixture
def loaded(small_model, tmp_path):
    return load_with(small_model, tmp_path, "openai")


def load_with(model, folder, profile):
    save_model(folder / "a model", model, text_profile(profile), {"corpus": "</script>"})
    return Engine.load(folder / "a model")


class Page(HTMLParser):
    """The texts of a page, and every tag that it has."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.texts, self.tags, self.inside = [], [], False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = dict(attrs).get("class") == "text"
        self.texts += [""] * self.inside

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.texts[-1] += data


def data_of(page):
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(data)


def values_of(page, text, unit):
    """The values of a unit that the page has."""
    data = data_of(page)
    parts = np.frombuffer(base64.b64decode(data["texts"][text]["values"][unit]), "<i2")
    return parts * data["largest"][unit] / 32767


@pytest.mark.parametrize("profile", ["openai", "raw", "nvidia", "tweet"])
def test_characters_have_the_value_after_their_last_byte(small_model, tmp_path, profile):
    loaded = load_with(small_model, tmp_path, profile)
    texts = ["Très — 👩‍👧 bien", *NASTY]
    result = read_texts(loaded, texts, [4, 1])
    sequences = [loaded.encode(text) for text in texts]
    for text, sequence, unit_trace in zip(texts, sequences, result.traces, strict=True):
        read = loaded.profile.clean(text).encode("utf-8", "replace").decode()
        assert len(unit_trace.text) == len(read) == len(unit_trace.values)
        (values,) = loaded.read([sequence], (), state="cell", units=[4, 1]).unit_states
        at = len(loaded.profile.prefix)
        for number, character in enumerate(read):
            assert unit_trace.offsets[number] == at - len(loaded.profile.prefix)
            at += len(character.encode())
            np.testing.assert_allclose(unit_trace.values[number], values[at - 1], atol=1e-6)
        assert at == len(sequence) - len(loaded.profile.suffix)


@pytest.mark.parametrize(
    ("profile", "text", "shown"),
    [
        ("openai", "  one\ntwo\n", "one\ntwo"),
        ("openai", "a &amp;\nb", "a & b"),
        ("openai", "a \u2028 b", "a \u2028 b"),
        ("nvidia", "é<br>\nx", "e x"),
        ("raw", " one\ntwo ", " one\ntwo "),
        ("raw", "lone \ud800", "lone ?"),
    ],
)
def test_white_space_is_the_texts_own_where_it_aligns(small_model, tmp_path, profile, text, shown):
    loaded = load_with(small_model, tmp_path, profile)
    assert read_texts(loaded, [text], [0]).traces[0].text == shown


def test_the_units_of_highest_variance_follow_those_named(loaded):
    result = read_texts(loaded, ["one text", "another"], [3, 3, 1], top=4)
    assert result.units[:2] == [3, 1]
    assert len(set(result.units)) == len(result.units) == 6


def test_ranked_units_come_before_those_of_highest_variance(loaded):
    plain = read_texts(loaded, ["one text"], [3], top=4).units
    assert read_texts(loaded, ["one text"], [3], top=2, ranking=[5, 3, 5, 1, 0]).units == [3, 5, 1]
    mixed = read_texts(loaded, ["one text"], [3], top=4, ranking=[5, 3]).units
    assert mixed == [3, 5, *(unit for unit in plain[1:] if unit != 5)][:5]


@pytest.mark.parametrize("text", NASTY)
def test_a_page_holds_the_texts_and_nothing_of_them_acts(loaded, text):
    plain = Page(_as_html(read_texts(loaded, ["plain"], [2, 5])))
    result = read_texts(loaded, [text, "second"], [2, 5])
    page = _as_html(result)
    parsed = Page(page)
    assert parsed.texts == [visible(unit_trace.text) for unit_trace in result.traces]
    for number, unit_trace in enumerate(result.traces):
        for unit in range(2):
            values, limit = unit_trace.values[:, unit], result.ranges()[unit]
            np.testing.assert_allclose(values_of(page, number, unit), values, atol=2e-5 * limit)
    extra = {"section", "h2", "div"}
    assert [tag for tag in parsed.tags if tag not in extra] == [
        tag for tag in plain.tags if tag not in extra
    ]
    assert not re.search(r"(src|href|url)\s*[=(]", page)
    assert "http:" not in page
    assert "https:" not in page
    page.encode("utf-8")


def test_json_has_offsets_values_and_the_model(loaded, tmp_path):
    result = read_texts(loaded, ["é x", NASTY[5]], [2, 5])
    write(result, tmp_path / "new" / "h.json")
    content = json.loads((tmp_path / "new" / "h.json").read_text())
    assert content == as_json(result)
    assert content["units"] == [2, 5]
    assert content["model"]["name"] == "a model"
    assert content["model"]["provenance"] == {"corpus": "</script>"}
    assert str(tmp_path) not in json.dumps(content)
    first = content["texts"][0]
    assert [(c["character"], c["start"], c["end"]) for c in first["characters"]] == [
        ("é", 0, 2),
        (" ", 2, 3),
        ("x", 3, 4),
    ]
    values = [character["values"] for character in first["characters"]]
    np.testing.assert_allclose(values, result.traces[0].values, rtol=1e-5)


@pytest.mark.parametrize("text", NASTY)
def test_the_terminal_gets_colours_and_no_other_sequence(loaded, text):
    result = read_texts(loaded, [text], [2, 5])
    output = as_ansi(result)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain)
    assert plain.count(visible(result.traces[0].text)) == 2
    assert len(re.findall(r"\x1b\[38;", output)) >= 2 * len(result.traces[0].text.split("\n")[0])


@given(st.text())
def test_what_is_shown_has_a_character_for_each(text):
    assert len(visible(text)) == len(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", visible(text))


@pytest.mark.parametrize("palette", PALETTES)
def test_the_scale_runs_from_one_colour_to_the_other(palette):
    low, high = PALETTES[palette]
    assert background(0.0, 2.0, palette) == MIDDLE
    assert background(-5.0, 2.0, palette) == low
    assert background(2.0, 2.0, palette) == high
    half = [(middle + end) / 2 for middle, end in zip(MIDDLE, high, strict=True)]
    np.testing.assert_allclose(background(1.0, 2.0, palette), half, atol=1)


def test_a_known_limit_ends_the_scale_and_larger_values_keep_their_number():
    trace = UnitTrace("ab", np.array([0, 1, 2]), np.array([[0.25, 3], [-2.0, 1]]), np.zeros(2))
    result = UnitTraces([trace], [7, 8], "cell", 0, limits={7: 0.5})
    assert result.ranges() == [0.5, 3.0]
    zero = replace(trace, values=np.zeros((2, 2)))
    assert UnitTraces([zero], [7, 8], "cell", 0).ranges() == [1.0, 1.0]
    assert result.legend(0) == ("unit 7, cell: -0.5", "0.5")
    page = _as_html(result)
    assert data_of(page)["ranges"] == [0.5, 3.0]
    np.testing.assert_allclose(values_of(page, 0, 0), [0.25, -2.0], atol=1e-4)


def test_a_shipped_models_scale_is_the_units_own_on_labelled_texts():
    """So that a mixed text turns, from one end of the scale to the other."""
    loaded = Engine.load("amazon_subword_1024")
    texts = ["It is great, I loved it, until it broke. A terrible waste of money."]
    result = sentiment_traces(loaded, texts, show_progress=False)
    first, last = (result.traces[0].values[at, 0] / result.ranges()[0] for at in (22, -1))
    assert first > 0.9
    assert last < -0.9
    other = sentiment_traces(loaded, texts, state="hidden", show_progress=False)
    assert other.ranges() == other.largest()  # the record is the cell state's


def test_the_texts_are_those_that_classify_reads(tmp_path, capsys):
    """Without HTML tags; of a file, without cells that are no answer below their header."""
    tagged, plain = sentiment_traces(
        Engine.load("default_small"),
        ["I <b>loved</b> it.<br />It broke.", "I loved it. It broke."],
        show_progress=False,
    ).traces
    assert (tagged.text, tagged.values.tolist()) == (plain.text, plain.values.tolist())
    table = tmp_path / "survey.csv"
    table.write_text("What could we improve?,n\nnothing,1\nIt broke at once.,2\n")
    dispatch(["heatmap", "--model", "default_small", "--input", str(table), "--no-ansi"])
    shown = capsys.readouterr().out
    assert "classifier: negative" in shown
    assert "nothing" not in shown


def test_what_is_too_large_for_a_page_may_be_json_and_a_picture_is_refused():
    with pytest.raises(InputError, match=r"a\.png: the name must end in \.html or \.json"):
        check_outputs([Path("a.png")], ["x"])
    texts = ["x" * 60_000] * 2
    with pytest.raises(InputError, match=r"a\.html: 120,000 characters .*\.json"):
        check_outputs([Path("b.json"), Path("a.html")], texts)
    check_outputs([Path("b.json")], texts)
    check_outputs([Path("a.html")], texts[:1])


def test_the_last_class_is_the_positive_pole():
    parts = (np.zeros(2, np.float32), 0.0, ("bad", "good"), 0)
    assert poles_of(regression(*parts, -1, "")) == ("label bad", "label good")
    stars = (np.zeros((3, 2), np.float32), np.zeros(3), ("1", "3", "5"), 0)
    assert poles_of(regression(*stars, 1, "")) == ("other labels", "label 5")


@pytest.mark.parametrize(
    ("texts", "units", "options", "words"),
    [
        ([], [0], {}, "no texts"),
        ("good", [0], {}, r"got a single string; write \[text\]"),
        (["good", " \n "], [0], {}, "text 2 is empty"),
        (["good"], [12], {}, "unit 12: the model has units 0 to 11"),
        (["good"], [0], {"layer": False}, "layer False"),
        (["good"], [0], {"state": "Cell"}, "state is 'Cell'; known: cell, hidden"),
        (["good"], [0], {"top": True}, "top is True"),
        (["good"], [0], {"top": -1}, "top is -1"),
        (["good"], [], {}, "no units"),
        (["good"], 1, {}, r"units is 1; give a list of units, such as \[0, 7\]"),
    ],
)
def test_what_cannot_be_read_is_refused(loaded, texts, units, options, words, monkeypatch):
    with pytest.raises(InputError, match=words):
        read_texts(loaded, texts, units, **options)
    damaged = Reading(lengths=np.ones(1), unit_states=[np.full((7, 1), np.nan)])
    monkeypatch.setattr(loaded, "read", lambda *_, **__: damaged)
    with pytest.raises(InputError, match="damaged"):
        read_texts(loaded, ["text"], [0])


@pytest.mark.parametrize(("cell", "named"), [("gru", "hidden"), ("lstm", "cell")])
def test_a_cell_without_a_memory_of_its_own_shows_its_hidden_state(tmp_path, cell, named):
    model = build_model(ModelConfig(hidden_size=8, cell=cell), seed=0)
    save_model(tmp_path / "m", model, text_profile("openai"), {})
    traces = read_texts(load_model(tmp_path / "m"), ["good"], [0])
    assert traces.state == as_json(traces)["state"] == named
    assert traces.legend(0)[0].startswith(f"unit 0, {named}: ")


POLES = ("label bad", "label good")


def test_what_is_positive_is_shown_high_whatever_the_units_sign(loaded):
    result = replace(read_texts(loaded, ["good"], [3, 1]), poles=POLES, polarities={3: -1})
    shown = result.oriented()
    for own, oriented in zip(result.traces, shown.traces, strict=True):
        np.testing.assert_array_equal(oriented.values, own.values * np.float32([-1, 1]))
        np.testing.assert_array_equal(oriented.before, own.before * np.float32([-1, 1]))
    assert as_json(result)["poles"] == POLES[::-1]  # the model's own
    assert as_json(result)["texts"][0]["characters"][0]["values"][0] == pytest.approx(
        result.traces[0].values[0, 0], rel=1e-5
    )
    value = shown.traces[0].values[0, 0]
    assert values_of(_as_html(result), 0, 0)[0] == pytest.approx(value, rel=1e-3)
    assert "unit 3 with its sign turned" in _as_html(result)
    head = re.sub(r"\x1b\[[0-9;]*m", "", as_ansi(result)).splitlines()[0]
    assert re.fullmatch(r"unit 3, cell, sign turned: label bad -\S+ +\S+ label good", head)
    same = replace(read_texts(loaded, ["good"], [3]), poles=POLES, polarities={3: 1})
    assert same.oriented() is same


def test_a_unit_that_hardly_separates_the_classes_has_no_known_end():
    own = regression(np.ones(6, np.float32), 0.0, ("bad", "good"), 5, -1, "")
    areas = np.array([0.551, 0.549, 0.449, 0.451, 0.5, 0.9], np.float32)
    ends = orientation_of(own, areas)
    assert ends == {"poles": POLES, "polarities": {0: 1, 2: -1, 5: -1}}  # its neuron by itself
    assert orientation_of(own, None)["polarities"] == {5: -1}


def test_further_units_are_turned_where_their_ends_are_known(loaded):
    orientation = {"poles": POLES, "polarities": {1: -1, 4: 1}}
    result = replace(read_texts(loaded, ["good"], [3, 1, 4, 2]), **orientation)
    shown = result.oriented()
    values = result.traces[0].values * np.float32([1, -1, 1, 1])
    np.testing.assert_array_equal(shown.traces[0].values, values)
    assert result.meanings() == [None, POLES[::-1], POLES, None]
    assert shown.meanings() == [None, POLES, POLES, None]
    assert shown.oriented() is shown
    assert (as_json(result)["poles"], as_json(result)["polarities"]) == (None, [0, -1, 1, 0])
    assert "unit 1 with its sign turned" in _as_html(result)
    two = replace(read_texts(loaded, ["good"], [1, 3]), poles=POLES, polarities={1: -1, 3: -1})
    assert "units 1, 3 with their sign turned" in _as_html(two)
    assert two.oriented().meanings() == [POLES, POLES]


def test_a_character_has_the_value_of_the_token_that_covers_it(tmp_path, subword_model, subwords):
    profile = text_profile("openai")
    save_model(tmp_path / "m", subword_model, profile, {}, tokenizer=subwords)
    loaded = Engine.load(tmp_path / "m")
    text = "I loved it \U0001f600 caf\u00e9"
    (unit_trace,) = read_texts(loaded, [text], [5]).traces
    tokens = loaded.encode(text)
    (values,) = loaded.read([tokens], (), state="cell", units=[5]).unit_states
    # Token by token: which characters of the framed text end inside it. A space before letters
    # is not one of them yet.
    read, expected, last = b"", [], np.zeros(1)
    for token, value in zip(tokens.tolist(), values, strict=True):
        before = read.decode("utf-8", "ignore")
        read += subwords.spellings[token]
        new = read.decode("utf-8", "ignore")[len(before) :]
        expected += [last if letter == " " and new.strip() else value for letter in new]
        last = value
    np.testing.assert_allclose(unit_trace.values, expected[2:-1], atol=1e-6)  # without the frame
    assert len(unit_trace.text) == len(text) < len(tokens) + 12


def test_a_notebook_shows_a_coloured_text(tmp_path):
    """The HTML needs no style sheet, and no part of the text acts in it."""
    shown = heatmap("I love it. <script>\x1b[31m", "default_small")
    page = shown._repr_html_()
    letters = re.findall(r'<span style="color:#fff;background:rgb\((\d+, ){2}\d+\)">', page)
    assert len(letters) == len("I love it. <script>\x1b[31m")
    assert "<script>" not in page
    assert "\x1b" not in page
    assert "classifier: " in page
    shown.save(tmp_path / "heatmap.json")
    assert json.loads((tmp_path / "heatmap.json").read_text())["units"] == shown.traces.units
    assert len(heatmap(["good", "bad"], "default_small", neuron=7).traces.traces) == 2
    with pytest.raises(InputError, match="palette is 'red'; known: green-red, blue-orange"):
        heatmap("good", "default_small", palette="red")


def contrast(one, other):
    """The contrast of two colours, as WCAG 2.2 defines it."""
    luminances = []
    for color in (one, other):
        srgb = np.array(color) / 255
        linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
        luminances.append(linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    return max(luminances) / min(luminances)


@pytest.mark.parametrize("color", [MIDDLE, *chain.from_iterable(PALETTES.values())])
def test_white_letters_can_be_read_on_every_colour(color):
    assert contrast((255, 255, 255), color) >= 4.5
    (red, green, _), (other_red, other_green, _) = PALETTES["green-red"]  # low, high
    assert (red > 2 * green, other_green > 2 * other_red) == (True, True)
