"""Short reviews and sentences of a corpus, and the mean of models' weights."""

import json

import pytest
import torch

from data_utils.preparation.preparation import Preparation, prepare_corpus
from experiments.models.tables import characters_of_each, trainings
from model.files.weights import load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.text.profiles import text_profile

from ..support.runs import done, run

REVIEWS = ["Good. It works!", "Is it? No, and this one is far too long to be kept.", "Bad."]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--longest", 20], {"Good. It works!", "Bad."}),
        (["--longest", 20, "--sentences"], {"Good.", "It works!", "Is it?", "Bad."}),
    ],
)
def test_short_texts_and_sentences_are_kept(tmp_path, words, expected):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in REVIEWS))
    prepare_corpus([source], tmp_path / "corpus", Preparation(split=(1, 0, 0)), workers=1)
    done(run("-m", "experiments.neuron.last_text", tmp_path / "corpus", "--output", output, *words))
    assert {json.loads(line)["text"] for line in output.read_text().splitlines()} == expected


def test_weights_are_averaged_if_the_models_are_alike(tmp_path):
    models = [build_model(ModelConfig(hidden_size=8, embedding_size=4), seed) for seed in (0, 1)]
    wider = build_model(ModelConfig(hidden_size=16, embedding_size=4), 0)
    folders = [tmp_path / name for name in ("a", "b", "wider")]
    for folder, model in zip(folders, [*models, wider], strict=True):
        save_model(folder, model, text_profile("openai"), {"characters": len(folder.name) * 10**6})
    a, b, other = folders
    average = ("-m", "experiments.models.mean_weights")
    done(run(*average, a, a, b, "--output", tmp_path / "mean"))
    loaded = load_model(tmp_path / "mean")
    *parts, last = trainings(dict(loaded.provenance))
    assert parts == [{"characters": 10**6}] * 2
    assert last["mean_of"] == parts
    assert last["times"] == [2, 1]
    assert characters_of_each(parts) == "1 to 1 M in each of 2 averaged trainings"
    mean = loaded.model.state_dict()
    first, second = (model.state_dict() for model in models)
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, (2 * first[name] + second[name]) / 3)
    refused = run(*average, a, other, "--output", tmp_path / "none")
    assert refused.returncode == 2
    assert "differ in architecture or vocabulary" in refused.stderr
    assert not (tmp_path / "none").exists()
