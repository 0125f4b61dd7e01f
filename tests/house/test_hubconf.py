"""torch.hub.load finds the entry points of a checkout, whatever else is called `model`."""

import json
import subprocess
import sys

import pytest

import hubconf
from model import SentimentClassifier, SentimentFeaturizer, save_model
from model.classifiers.classifier import Classifier, save_classifier
from model.files.weights import load_model, model_digest
from model.text.profiles import text_profile
from tests.support.runs import ROOT

CODE = """
import json, sys, torch
repository, folder = sys.argv[1:]
load = lambda name, **options: torch.hub.load(repository, name, folder, source="local", **options)
featurizer = load("sentiment_featurizer", pooling="max")
language_model = load("language_model", backend="reference")
logits, _ = language_model(torch.tensor([[103, 111]]), language_model.initial_state(1))
print(json.dumps({
    "features": featurizer.transform(["good"]).tolist(),
    "logits": list(logits.shape),
    "label": load("sentiment_classifier").predict(["good"]).tolist(),
    "modules": [featurizer.__module__, "model" in sys.modules and sys.modules["model"].__file__],
}))
"""


def test_the_entry_points_of_a_checkout(small_model, tmp_path):
    folder = tmp_path / "saved"
    save_model(folder, small_model, text_profile("openai"), {})
    digest = model_digest(load_model(folder).model)
    weights = small_model.decoder.weight[0].detach().numpy()
    save_classifier(folder / "classifier", Classifier(weights, 0.0, ("bad", "good"), 1, 1, digest))
    (tmp_path / "model.py").write_text("")
    (tmp_path / "load.py").write_text("import model\n" + CODE)
    process = subprocess.run(
        [sys.executable, "-W", "error", tmp_path / "load.py", ROOT, folder],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    expected = SentimentFeaturizer.from_pretrained(folder, pooling="max").transform(["good"])
    assert found["features"][0] == pytest.approx(expected[0].tolist(), rel=1e-5, abs=1e-6)
    assert found["logits"] == [1, 2, 256]
    assert found["label"] == SentimentClassifier.from_pretrained(folder).predict(["good"]).tolist()
    assert found["modules"] == ["mlstm_sentiment.featurizer", str(tmp_path / "model.py")]


def test_nothing_else_is_offered():
    offered = {name for name, value in vars(hubconf).items() if callable(value) and name[0] != "_"}
    assert offered == {"sentiment_featurizer", "sentiment_classifier", "language_model"}
    assert all(vars(hubconf)[name].__doc__ for name in offered)
