"""Every option of a command reaches the function whose argument it is."""

import json
from functools import partial

import numpy as np
import pytest
import torch

from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.features import read_features
from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.engine.request import Clamp
from mlstm_sentiment.engine.sampling import SamplingConfig, continue_text, generate
from mlstm_sentiment.engine.scoring import score_split
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import save_head
from mlstm_sentiment.text.glyphs import visible
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.split import encode_split
from model.inference.weights import load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.conftest import emphatic
from tests.support.heads import regression
from tests.support.runs import unread_stdout

TEXTS = [review.text for review in synthetic_reviews(12, seed=1)]
clamp = partial(Clamp, unit=2)


@pytest.fixture
def loaded(tmp_path):
    """A model of two layers, which often writes the beginning of a review."""
    config = ModelConfig(hidden_size=12, embedding_size=6, layers=2)
    model = emphatic(build_model(config, seed=3))
    with torch.no_grad():
        model.decoder.bias[[ord("\n"), ord(" ")]] = 4.0
    save_model(tmp_path / "model", model, text_profile("openai"), {})
    return load_model(tmp_path / "model")


@pytest.fixture
def texts(tmp_path):
    """A file of texts."""
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    return tmp_path / "texts.txt"


def call(command, loaded, *words):
    dispatch([command, "--model", *map(str, (loaded.folder, *words))])


@pytest.mark.parametrize(
    ("words", "settings", "more"),
    [
        (("--temperature", 0.2), {"temperature": 0.2}, {}),
        (("--top-k", 2), {"top_k": 2}, {}),
        (("--top-p", 0.3), {"top_p": 0.3}, {}),
        (("--length", 7), {"length": 7}, {}),
        (("--seed", 5), {"seed": 5}, {}),
        (("--stop",), {}, {"stop": "\n "}),
        (("--neuron", 2, "--value", 9), {}, {"clamp": clamp(cell=9)}),
        (("--neuron", 2, "--hidden-value", 9), {}, {"clamp": clamp(hidden=9)}),
        (("--neuron", 2, "--value", 9, "--layer", 0), {}, {"clamp": clamp(cell=9, layer=0)}),
    ],
)
def test_generate(loaded, capsys, words, settings, more):
    def written(settings, **more):
        pieces = generate(loaded, b"\n x", SamplingConfig(**{"length": 60, **settings}), **more)
        return "".join(characters for _, characters in pieces)

    length = () if "--length" in words else ("--length", 60)
    call("generate", loaded, "--prompt", "x", *length, *words)
    expected = written(settings, **more)
    assert capsys.readouterr().out == f"x{visible(expected)}\n"
    assert expected != written({})  # the option changes this text


def test_which_side_is_positive_is_not_guessed_of_three_classes(loaded):
    head = regression(np.eye(3, 12), np.zeros(3), ("fine", "good", "bad"), digest=loaded.digest())
    save_head(loaded.folder / "classifier", head)
    with pytest.raises(InputError, match="each other; the classifier has fine, good, bad: give "):
        call("generate", loaded, "--prompt", "x", "--sentiment", 2)
    call("generate", loaded, "--prompt", "x", "--neuron", 2, "--value", 2, "--length", 5)


def test_generate_several(loaded, capsys):
    call("generate", loaded, "--prompt", "x", "--samples", 3, "--length", 20, "--top-k", 9)
    texts = continue_text(loaded, "x", SamplingConfig(length=20, top_k=9), samples=3)
    assert len(set(texts)) == 3
    lines = [f"[{number}] x{visible(text)}\n" for number, text in enumerate(texts, start=1)]
    assert capsys.readouterr().out == "".join(lines)


@pytest.mark.parametrize(
    ("words", "options"),
    [((), {}), (("--reset", "review"), {"reset": "review"}), (("--lanes", 3), {"lanes": 3})],
)
def test_evaluate(loaded, texts, tmp_path, words, options):
    call("evaluate", loaded, "--data", texts, "--output", tmp_path / "found.json", *words)
    result = json.loads((tmp_path / "found.json").read_text())
    engine, split = Engine.load(loaded.folder), encode_split(TEXTS, loaded.profile)
    expected = score_split(engine, split, **options)
    for name, value in expected._asdict().items():
        assert result[name] == pytest.approx(value, rel=1e-9)
    plain = score_split(engine, split).bits_per_character
    assert (plain == pytest.approx(result["bits_per_character"], rel=1e-7)) == (not words)


@pytest.mark.parametrize(("layer", "state"), [(0, "cell"), (1, "hidden"), (-1, "cell")])
def test_heatmap(loaded, tmp_path, layer, state):
    output = tmp_path / "found.json"
    words = ("--neuron", 3, "--neuron", 1, "--layer", layer, "--state", state)
    call("heatmap", loaded, "--text", "good", *words, "--output", output)
    (shown,) = json.loads(output.read_text())["texts"]
    where = {"state": state, "layers": [layer % 2], "units": [3, 1]}
    (each,) = loaded.read([loaded.encode("good")], (), **where).unit_states
    values = [character["values"] for character in shown["characters"]]
    np.testing.assert_allclose(values, each[2:6], rtol=1e-5)  # of "\n good ", the letters


def test_several_models_are_scored_on_the_same_texts(loaded, texts, tmp_path, capsys):
    other = build_model(ModelConfig(hidden_size=8, embedding_size=4), seed=4)
    save_model(tmp_path / "other", other, text_profile("openai"), {})
    folders, output = [str(loaded.folder), str(tmp_path / "other")], tmp_path / "scores.json"
    dispatch(["evaluate", "--model", *folders, "--data", str(texts), "--output", str(output)])
    rows = json.loads(output.read_text())["models"]
    assert [row["model"] for row in rows] == folders
    lines = capsys.readouterr().out.splitlines()
    for folder, row, line in zip(folders, rows, lines[1:], strict=True):
        dispatch(["evaluate", "--model", folder, "--data", str(texts), "--output", str(output)])
        alone = json.loads(output.read_text())
        assert row["bits_per_character"] == alone["bits_per_character"]
        assert line.split()[:2] == [folder, f"{row['bits_per_character']:.4f}"]


@pytest.mark.parametrize(
    "words",
    [
        "models",
        "evaluate --model {0} --data {1}",
        "heatmap --model {0} --neuron 1 --text good --output {1}.html",
    ],
)
def test_files_are_written_even_if_nobody_reads_the_table(loaded, texts, tmp_path, words):
    output = tmp_path / "found.json"
    with unread_stdout(), pytest.raises(BrokenPipeError):
        dispatch([*words.format(loaded.folder, texts).split(), "--output", str(output)])
    assert json.loads(output.read_text())


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("--preset", "pooled"), {"pooling": ("last", "mean", "max", "min")}),
        (("--layers", "all"), {"layers": "all"}),
        (("--layers", 0), {"layers": [0]}),
    ],
)
def test_featurize(loaded, texts, tmp_path, words, kind):
    call("featurize", loaded, "--input", texts, "--output", tmp_path / "found.npy", *words)
    features = np.load(tmp_path / "found.npy")
    engine, sequences = Engine.load(loaded.folder), list(map(loaded.encode, TEXTS))
    expected, _ = read_features(engine, sequences, FeatureKind(**kind))
    np.testing.assert_array_equal(features, expected)
    in_torch, _ = read_features(loaded, sequences, FeatureKind(**kind))
    np.testing.assert_allclose(features, in_torch, rtol=1e-4, atol=1e-5)  # fp32
