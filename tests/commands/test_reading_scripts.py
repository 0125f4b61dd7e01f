"""generate and heatmap as processes: what they print and write, what they refuse."""

import json
import logging
import os
import re
from functools import partial

import numpy as np
import pytest

from mlstm_sentiment.head.head_files import FOLDER, save_areas, save_head
from mlstm_sentiment.pages.page import PALETTES
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, model_digest, save_model
from tests.support.heads import regression
from tests.support.runs import assert_refused, done, run_anew, start, terminal


@pytest.fixture
def folder(small_model, tmp_path):
    """A model without a classifier."""
    save_model(tmp_path / "m", small_model, text_profile("openai"), {})
    return tmp_path / "m"


def give_classifier(folder, digest=None, place=None, units=(4, 2, 9)):
    """Save a classifier, with the model or in a place; its first unit has the largest weight."""
    digest = digest or model_digest(load_model(folder).model)
    weights = np.zeros(12, np.float32)
    weights[list(units)] = 1, -0.5, 0.25
    classifier = regression(weights, 0.0, ("no", "yes"), units[0], -1, digest)
    save_head((place or folder) / FOLDER, classifier)


@pytest.fixture
def generate(folder, run_here):
    """Return a function that runs generate.py with the model of `folder`."""
    return partial(run_here, "scripts/generate.py", "--model", folder)


@pytest.fixture
def heatmap(folder, run_here):
    """Return a function that runs heatmap.py with the model of `folder`."""
    return partial(run_here, "scripts/heatmap.py", "--model", folder)


def test_generate_holds_the_unit_of_the_models_own_classifier_whatever_its_sign(folder, generate):
    give_classifier(folder)  # of polarity -1
    words = (["--sentiment", "3"], ["--value", "-3"], ["--value", "-3", "--neuron", "4"])
    texts = {done(generate("--length", "50", *more)).stdout for more in words}
    assert len(texts) == 1


def test_a_named_classifier_says_which_unit(folder, tmp_path, run_here):
    give_classifier(folder)
    give_classifier(folder, place=tmp_path / "other", units=(7, 3, 1))
    words = ("--model", folder, "--classifier", tmp_path / "other")
    shown = done(run_here("scripts/heatmap.py", *words, "--text", "good", "--top", 2))
    assert re.findall(r"unit (\d+)", shown.stdout) == ["7", "3", "1"]
    held = run_here("scripts/generate.py", *words, "--length", 50, "--sentiment", 3)
    clamp = ("--length", 50, "--neuron", 7, "--value", -3)
    assert held.stdout == run_here("scripts/generate.py", "--model", folder, *clamp).stdout
    valued = run_here("scripts/generate.py", *words, "--length", 50, "--value", -3)
    assert valued.stdout == held.stdout
    pages = []
    for each in (words, words[:2]):
        pages.append(tmp_path / f"{len(pages)}.html")
        assert run_here("scripts/demo.py", *each, "--output", pages[-1]).returncode == 0
    named, own = (re.findall(r'"unit": ?(\d+)', page.read_text()) for page in pages)
    assert (named[:1], own[:1]) == (["7"], ["4"])


def test_heatmap_takes_the_neuron_of_the_models_own_classifier(folder, heatmap, tmp_path):
    give_classifier(folder)
    output = ("--output", tmp_path / "h.html", "--output", tmp_path / "h.json")
    done(heatmap("--text", "good", "--text=-5 \u00e9", *output))
    assert ">classifier: " in (tmp_path / "h.html").read_text()
    content = json.loads((tmp_path / "h.json").read_text())
    assert content["units"] == [4]
    assert content["poles"] == ["label yes", "label no"]  # of polarity -1
    assert len(content["texts"]) == 2
    printed = heatmap("--text", "good", "--top", "2")
    assert "unit 4, cell, sign turned: label no" in printed.stdout
    assert printed.stdout.count("unit ") == 3  # the sentiment unit comes first
    assert printed.stdout.count("classifier: ") == 1
    output = tmp_path / "other.json"
    heatmap("--text", "good", "--neuron", "5", "--top", "3", "--output", output)
    assert json.loads(output.read_text())["units"] == [5, 4, 2, 9]
    named = heatmap("--text", "good", "--neuron", "5")
    assert "unit 5, cell: -" in named.stdout


def test_heatmap_leaves_out_rows_that_cleaning_empties(heatmap, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    (tmp_path / "in.csv").write_text('text\nI like it.\n&nbsp;\n""\n<p>&nbsp;</p>\nIt broke.\n')
    output, words = tmp_path / "h.json", ("--neuron", "4")
    done(heatmap(*words, "--input", tmp_path / "in.csv", "--output", output))
    shown = [text["text"] for text in json.loads(output.read_text())["texts"]]
    assert shown == ["I like it.", "It broke."]
    assert "in.csv: 3 rows without an answer left out" in caplog.text
    refused = heatmap(*words, "--text", "I like it.", "--text", "&nbsp;")
    assert_refused(refused, "text 2 is empty once the profile openai has cleaned it")


def test_heatmap_shows_the_units_that_separate_the_classes_best(folder, heatmap, tmp_path):
    give_classifier(folder)
    areas = np.full(12, 0.5)
    areas[[8, 4, 3, 1]] = 0.1, 0.2, 0.7, 0.54
    save_areas(folder / FOLDER, areas, np.ones(12))
    words = ("--text", "good", "--top", "3")
    shown = heatmap(*words).stdout
    ends = [r"4, cell, sign turned: label no \S+ to \S+ label yes",
            r"8, cell, sign turned: label no \S+ to \S+ label yes",
            r"3, cell: label no \S+ to \S+ label yes", r"1, cell: \S+ to \S+"]  # fmt: skip
    for end, line in zip(ends, re.findall("^unit (.*)", shown, flags=re.MULTILINE), strict=True):
        assert re.fullmatch(end, line)
    heatmap(*words, "--neuron", "3", "--output", tmp_path / "h.json")
    content = json.loads((tmp_path / "h.json").read_text())
    assert (content["units"], content["polarities"]) == ([3, 4, 8, 1], [1, -1, -1, 0])
    assert content["poles"] == ["label no", "label yes"]  # of the first unit


def shown_on_a_terminal(command, **environment):
    """Run a command on a terminal of its own; return what it shows there."""
    with terminal() as (path, reader):
        process = start(*command, env={"NO_COLOR": "", **environment}, streams=[path, path])
        process.communicate(timeout=120)
        assert process.returncode == 0
        os.set_blocking(reader, False)
        return os.read(reader, 1 << 16).decode()


def test_heatmap_colours_only_a_terminal_unless_asked_to(folder, heatmap):
    give_classifier(folder)
    words = ("--model", folder, "--text", "so good")
    command = ["scripts/heatmap.py", *words]
    plain = heatmap("--text", "so good").stdout
    assert re.fullmatch(
        r"unit 4, cell, sign turned: label no -\S+ to \S+ label yes\n"
        r" +[+-]\d\.\d{3} so\n +[+-]\d\.\d{3} good\n"
        r"classifier: (yes|no|unsure) \(probability of yes 0\.\d{3}\)\n",
        plain,
    )
    assert heatmap("--text", "so good", "--no-ansi").stdout == plain
    for palette, others in (PALETTES, reversed(PALETTES)):
        coloured = heatmap("--text", "so good", "--ansi", "--palette", palette).stdout
        for name, is_shown in ((palette, True), (others, False)):
            colours = (";".join(map(str, ("48;2", *colour))) for colour in PALETTES[name])
            assert any(f"{colour}m" in coloured for colour in colours) is is_shown
    shown = shown_on_a_terminal(command)
    assert "\x1b[38;2;" in shown
    assert plain.splitlines()[-1] in shown  # the classifier's own words
    assert "\x1b" not in shown_on_a_terminal(command, NO_COLOR="1")
    assert "\x1b" not in shown_on_a_terminal([*command, "--no-ansi"])


@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        ("generate", ["--value", "1"], ["no classifier in it", "--neuron"]),
        ("generate", ["--neuron", "1"], ["--value"]),
        ("generate", ["--sentiment", "1"], ["no classifier in it"]),
        ("generate", ["--sentiment", "1", "--value", "1"], ["--sentiment clamps", "--value"]),
        (
            "generate",
            ["--sentiment", "1", "--classifier", "."],
            ["no classifier in it (classifier"],
        ),
        ("generate", ["--neuron", "1", "--value", "2", "--classifier", "."], ["says which unit"]),
        ("heatmap", ["--text", "x", "--neuron", "1", "--classifier", "."], ["no classifier in it"]),
        ("generate", ["--temperature", "-1"], ["temperature is -1"]),
        ("heatmap", ["--text", "good"], ["no classifier in it", "--neuron"]),
        ("heatmap", ["--neuron", "1"], ["give a --text or an --input"]),
        ("heatmap", ["--text", " ", "--neuron", "0"], ["text 1 is empty"]),
        ("heatmap", ["--text", "x", "--neuron", "12"], ["unit 12", "0 to 11"]),
        ("heatmap", ["--text", "x", "--neuron", "0", "--output", "x.gif"], ["x.gif", ".json"]),
    ],
)
def test_refusals_are_one_line(folder, run_here, script, options, words):
    assert_refused(run_here(f"scripts/{script}.py", "--model", folder, *options), *words)


def test_a_classifier_of_other_weights_is_not_trusted(folder, heatmap, generate):
    give_classifier(folder, digest="another")
    for more in ((), ("--neuron", "5")):
        assert_refused(heatmap("--text", "x", *more), "another model", "move the classifier away")
    assert_refused(generate("--value", "1", "--layer", "0"), "another model")
    assert_refused(generate("--value", "1", "--layer", "1"), "layer 1", "layers 0 to 0")


def test_text_on_the_command_line_that_is_not_utf8_is_refused(heatmap):
    process = heatmap("--text", "caf\udce9 was lovely", "--neuron", "1")
    assert_refused(process, r"udce9", ": not UTF-8; put it into a file, and give its --encoding")


def test_text_on_the_command_line_is_utf8_in_any_locale(folder):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = ("heatmap", "--model", folder, "--neuron", "1", "--text", "caf\u00e9")
    utf8 = {"PYTHONUTF8": "1"}
    one, other = (
        run_anew("-m", "mlstm_sentiment", *words, env=env).stdout for env in (plain, utf8)
    )
    assert one == other.replace("\u00e9", "\\xe9")
    assert "\u00e9" in other
