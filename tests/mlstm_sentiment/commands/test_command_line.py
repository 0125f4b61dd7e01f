"""mlstm-sentiment: its commands, their help and examples, and the answer to a mistake."""

import json
import shlex
from dataclasses import dataclass
from importlib import import_module

import pytest

from mlstm_sentiment.commands.command_line import COMMANDS, PROGRAM, call, dispatch
from mlstm_sentiment.commands.parser import parse
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import ALIASES, find_model, shipped_models


def test_without_a_word_it_says_what_there_is_and_help_is_a_command_as_well(capsys):
    dispatch([])
    everything = capsys.readouterr().out
    for name, what in COMMANDS.items():
        assert f"  {name:<10} {what}\n" in everything
    for words in (["help"], ["help", "help"]):
        dispatch(words)
        assert capsys.readouterr().out == everything
    with pytest.raises(SystemExit) as end:
        dispatch(["help", "classify"])
    assert not end.value.code
    assert capsys.readouterr().out.startswith("usage: mlstm-sentiment classify")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_examples_that_can_be_typed(name, capsys):
    with pytest.raises(SystemExit) as end:
        dispatch([name, "--help"])
    assert not end.value.code
    about, _, examples = capsys.readouterr().out.partition("\nexamples:\n")
    assert "None" not in about
    module = import_module(f"mlstm_sentiment.commands.{name}")
    for line in examples.replace("\\\n", " ").splitlines():
        words = shlex.split(line.split("|")[-1])
        assert words[:2] == [PROGRAM, name]
        parse(module.Options, arguments=words[2:])  # refuses what is no option


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["clasify"], "no command 'clasify'; did you mean 'classify'?"),
        (
            ["--model", "default", "classify", "--text", "a b"],
            "options come after the command: mlstm-sentiment classify --model default --text 'a b'",
        ),
        (["--threshold", "1"], "options come after a command: classify, report"),
        (["classify", "I love it"], "unknown: I love it; did you mean --text 'I love it'?"),
        (["heatmap", "I", "love", "it", "--top", "1"], "did you mean --text 'I love it'?"),
        (["classify", __file__], f"did you mean --input {__file__}?"),
        (["generate", "I thought"], "did you mean --prompt 'I thought'?"),
        (["classify", "--input", "."], r"\.: is a folder"),
        (["classify", "--treshold", "1"], "did you mean '--threshold'?"),
        (["classify", "--threshold", "high"], "--threshold"),
        (["featurize", "--input", "x"], "--output"),
        (["featurize", "--input", "x", "--output", "y.npy", "--layers", "first"], "'first'"),
        (["generate", "--model", "defualt"], "'defualt'.*did you mean 'default'?"),
    ],
)
def test_a_mistake_is_answered_with_what_there_is(words, said):
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        dispatch(words)


@dataclass(frozen=True)
class Named:
    """Options with a text and its key."""

    text: str | None = None
    text_key: str | None = None


def test_a_dash_is_an_underscore():
    calls = []
    call(Named, calls.append, "a\n\nb", ["--text_key=a_b"])
    assert calls[0].text_key == "a_b"


def test_a_text_that_begins_with_dashes_stays_as_it_is():
    calls = []
    words = ["--text", "--the my_phone case_broke=yes"]
    call(Named, calls.append, "a\n\nb", words)
    assert calls[0].text == words[1]


def test_models_are_listed(tmp_path, capsys):
    dispatch(["models", "--output", str(tmp_path / "models.json")])
    shown = capsys.readouterr().out
    models = json.loads((tmp_path / "models.json").read_text())["models"]
    assert [model["name"] for model in models] == shipped_models()
    for model in models:
        assert model["name"] in shown
        assert find_model(model["name"]).samefile(model["folder"])
    (best,) = (model for model in models if "default" in model["aliases"])
    assert best["name"] == ALIASES["default"]
    assert best["classes"] == ["negative", "positive"]
