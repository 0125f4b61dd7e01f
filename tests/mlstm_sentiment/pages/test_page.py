"""The page of a heatmap in a real browser: what is shown, what the keys and the selector do."""

import html
import json
import re
from itertools import pairwise

import numpy as np
import pytest

from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.pages.heatmap import _as_html
from mlstm_sentiment.text.glyphs import visible
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.units.unit_traces import read_texts
from model.inference.weights import save_model
from tests.mlstm_sentiment.pages.hostile import NASTY
from tests.support.chromium import CHROMIUM, browse, messages

TEXTS = [
    "It was good.\nThen it was bad, and it went on being bad for more words than one line of a "
    "page of this width can hold, so that the browser has to break it.",
    *NASTY,
]
UNITS = [2, 5, 0]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")

# Runs after the page's own script; what it saw comes back in an attribute of <html>.
PROBE = """
const seen = {};
// A window that the browser has not brought to the front yet moves the focus without an event.
const focus = HTMLElement.prototype.focus;
HTMLElement.prototype.focus = function () {
  let fired = false;
  this.addEventListener("focusin", () => { fired = true; }, {once: true});
  focus.call(this);
  if (!fired) this.dispatchEvent(new FocusEvent("focusin", {bubbles: true}));
};
const options = [...document.querySelectorAll('[role="option"]')];
const first = options[0];
const out = document.getElementById("readout");
const color = (span) => getComputedStyle(span).backgroundColor;
const press = (key) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const place = () => options.indexOf(document.activeElement);
seen.spans = [...document.querySelectorAll(".text")].map((text) => text.children.length);
seen.shown = [...document.querySelectorAll(".text")].map((text) => text.textContent);
seen.live = out.getAttribute("aria-live");
seen.stops = document.querySelectorAll('.text [tabindex="0"]').length;
first.focus();
seen.start = [place(), out.textContent];
const walk = ["ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "ArrowUp", "Home",
  "ArrowLeft", "ArrowDown"];
seen.walk = walk.map((key) => { press(key); return [place(), out.textContent]; });
seen.selected = document.querySelectorAll('[aria-selected="true"]').length;
seen.stopsAfter = document.querySelectorAll('.text [tabindex="0"]').length;
const hebrew = document.querySelectorAll(".text")[2].children[0];
hebrew.focus();
seen.hebrew = ["ArrowLeft", "ArrowLeft", "ArrowRight"].map((key) => {
  press(key);
  return [...hebrew.parentElement.children].indexOf(document.activeElement);
});
options[seen.walk.at(-1)[0]].focus();
const before = options.map(color);
const select = document.getElementById("unit");
select.value = "1";
select.dispatchEvent(new Event("change"));
seen.changed = options.filter((span, at) => color(span) !== before[at]).length;
seen.values = values.flatMap((each) => [...each]);
seen.limit = document.getElementById("plus").textContent;
seen.readout = out.textContent;
select.value = "0";
select.dispatchEvent(new Event("change"));
seen.back = options.every((span, at) => color(span) === before[at]);
seen.colors = new Set(before).size;
seen.strengths = options.map((span) =>
  (span.className === "low" ? -1 : 1) * span.style.getPropertyValue("--share"));
seen.titles = options.map((span) => {
  span.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
  return span.title;
});
options[1].dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
seen.hovered = out.textContent;
seen.scripts = document.scripts.length;
document.documentElement.dataset.seen = JSON.stringify(seen);
"""


@pytest.fixture
def result(small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    loaded = Engine.load(tmp_path / "model")
    return read_texts(loaded, TEXTS, UNITS)


@pytest.fixture
def seen(result, tmp_path):
    """What the probe sees; the page's policy, which would refuse the probe, is taken out."""
    page = re.sub(
        r'<meta http-equiv="Content-Security-Policy".*?>', "", _as_html(result), flags=re.S
    )
    page = page.replace("</body>", f"<script>{PROBE}</script></body>")
    process = browse(page, tmp_path, "--dump-dom")
    assert messages(process) == []
    (content,) = re.findall(r'data-seen="(.*?)"', process.stdout.decode())
    return json.loads(html.unescape(content))


def test_the_page_runs_under_its_own_policy(result, tmp_path):
    """Nothing is refused, nothing fails, and the script has run: a first tab stop is there."""
    process = browse(_as_html(result), tmp_path, "--dump-dom")
    assert messages(process) == []
    assert process.stdout.decode().count('aria-selected="false" tabindex="0"') == len(TEXTS)


def test_the_policy_refuses_any_other_script(result, tmp_path):
    page = _as_html(result).replace("</body>", "<script>document.title = 'x'</script></body>")
    process = browse(page, tmp_path, "--dump-dom")
    assert len(messages(process)) == 1
    assert "<title>x</title>" not in process.stdout.decode()


def test_what_is_shown_and_what_keys_and_selector_do(result, seen):
    assert seen["spans"] == [len(trace.text) for trace in result.traces]
    assert seen["shown"] == [visible(trace.text) for trace in result.traces]
    assert seen["scripts"] == 3  # data, the page's, the probe
    assert seen["live"] == "polite"
    assert seen["stops"] == seen["stopsAfter"] == len(TEXTS)
    keys_move_the_focus(result.traces[0], seen)
    assert seen["hebrew"] == [1, 2, 1]  # from right to left, onward is to the left
    first = result.traces[0].values[0, 0]
    assert seen["start"] == [0, f"I {signed(first)} LATIN CAPITAL LETTER I U+0049, byte 0"]
    assert seen["hovered"].startswith(f"t {signed(result.traces[0].values[1, 0])} LATIN")
    total = sum(seen["spans"])
    assert seen["changed"] > 0.9 * total
    assert seen["back"]
    assert seen["colors"] > 20
    values = np.concatenate([trace.values for trace in result.traces]).T
    first_limit, second_limit = result.ranges()[:2]
    np.testing.assert_allclose(seen["values"], values[1], atol=1e-4 * second_limit)
    np.testing.assert_allclose(seen["strengths"], values[0] / first_limit, atol=6e-4)
    described = [float(title.split()[0].replace("\u2212", "-")) for title in seen["titles"]]
    np.testing.assert_allclose(described, values[0], atol=6e-4)
    assert [title.rpartition(" U+")[2] for title in seen["titles"]] == [
        f"{ord(letter):04X}, byte{f' {start}' if end == start + 1 else f's {start} to {end - 1}'}"
        for trace in result.traces
        for letter, (start, end) in zip(trace.text, pairwise(trace.offsets), strict=True)
    ]
    assert seen["titles"][1] == seen["hovered"][2:]
    assert float(seen["limit"]) == pytest.approx(result.ranges()[1], rel=1e-2)


def keys_move_the_focus(trace, seen):
    places = [place for place, _ in seen["walk"]]
    end = len(trace.text) - 1
    assert places[:5] == [1, 2, 1, end, end]
    assert trace.text.index("\n") < places[5] < end  # one line up, in the broken line
    assert places[6:8] == [0, 0]
    assert places[8] == trace.text.index("\n") + 1  # straight below the first character
    for place, said in seen["walk"]:
        assert signed(trace.values[place, 0]) in said
    assert seen["selected"] == 1
    assert signed(trace.values[places[8], 1]) in seen["readout"]  # follows the selector


def signed(value):
    sign = "\u2212" if value < 0 else "+"
    return f"{sign}{abs(value):.3f}"
