"""torch.hub.load finds the entry points of a checkout, whatever else is called `model`."""

import json
import re
import subprocess
import sys

import pytest
import torch

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


def parameters_of(entry_point):
    """Return the names that an entry point's docstring says it takes."""
    said = entry_point.__doc__.split("parameters: ")[1]
    return set(re.findall(r"\w+", re.sub(r"\([^)]*\)", "", said)))


@pytest.mark.parametrize("name", ["sentiment_featurizer", "sentiment_classifier", "language_model"])
def test_an_unknown_parameter_is_refused_with_those_that_are_documented(name):
    entry_point = getattr(hubconf, name)
    with pytest.raises(Exception, match=r"no parameter 'devise'; did you mean 'device'") as refused:
        entry_point(devise="cpu")
    assert type(refused.value).__name__ == "InputError"
    known = str(refused.value).split("known: ")[1].split(", ")
    assert parameters_of(entry_point) == set(known)


@pytest.mark.parametrize("device", [None, "auto", torch.device("cpu")])
def test_a_device_is_what_users_of_torch_give(small_model, tmp_path, device):
    save_model(tmp_path, small_model, text_profile("openai"), {})
    found = hubconf.language_model(str(tmp_path), device=device)
    if device == torch.device("cpu") or not torch.cuda.is_available():
        assert found.embedding.weight.device.type == "cpu"
    features = hubconf.sentiment_featurizer(str(tmp_path), device=device).transform(["good"])
    assert features.shape == (1, 12)


def test_a_dtype_that_is_none_is_refused(small_model, tmp_path):
    save_model(tmp_path, small_model, text_profile("openai"), {})
    for wrong in ("bf16", torch.int8):
        with pytest.raises(Exception, match=r"compute_dtype is .*; give one such as"):
            hubconf.language_model(str(tmp_path), compute_dtype=wrong)


def test_nothing_else_is_offered():
    offered = {name for name, value in vars(hubconf).items() if callable(value) and name[0] != "_"}
    assert offered == {"sentiment_featurizer", "sentiment_classifier", "language_model"}
    assert all(vars(hubconf)[name].__doc__ for name in offered)
