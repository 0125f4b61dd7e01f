"""A model of the Hugging Face hub, against a stand-in for huggingface_hub."""

import json
import shutil
import sys
from fnmatch import fnmatch
from types import SimpleNamespace

import numpy as np
import pytest

from mlstm_sentiment import SentimentClassifier, SentimentFeaturizer
from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import save_head
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, model_digest, save_model
from tests.support.heads import regression


class Hub:
    """Repositories as folders, with the call that mlstm_sentiment.files.shipped makes."""

    def __init__(self, root):
        self.root = root
        self.revisions = []

    def snapshot_download(self, repository, revision, allow_patterns):
        if not (self.root / repository).is_dir():
            raise OSError(f"{repository}: 404 Not Found\n\nTell its owner.")
        self.revisions.append(revision)
        for path in (self.root / repository).rglob("*"):
            name = path.relative_to(self.root / repository).as_posix()
            hidden = name.startswith(".")
            assert (
                hidden or path.is_dir() or any(fnmatch(name, pattern) for pattern in allow_patterns)
            )
        return str(self.root / repository)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    hub = Hub(tmp_path / "hub")
    calls = SimpleNamespace(snapshot_download=hub.snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", calls)
    return hub


@pytest.fixture
def folder(small_model, tmp_path):
    """A model with a classifier."""
    folder = tmp_path / "model"
    save_model(folder, small_model, text_profile("openai"), {})
    digest = model_digest(load_model(folder).model)
    classifier = regression(np.ones(12, np.float32), 0.0, ("no", "yes"), 4, -1, digest)
    save_head(folder / "classifier", classifier)
    return folder


def test_a_model_directory_that_was_uploaded_can_be_loaded_by_its_name(folder, hub):
    shutil.copytree(folder, hub.root / "me/tiny")
    texts = ["good", "bad"]
    np.testing.assert_array_equal(
        SentimentFeaturizer.from_pretrained("hf://me/tiny").transform(texts),
        SentimentFeaturizer.from_pretrained(folder).transform(texts),
    )
    named = SentimentClassifier.from_pretrained("hf://me/tiny@v1")
    np.testing.assert_array_equal(
        named.predict_proba(texts), SentimentClassifier.from_pretrained(folder).predict_proba(texts)
    )
    assert hub.revisions == [None, "v1"]


def test_a_command_fetches_a_model_once(folder, hub, capsys):
    shutil.copytree(folder, hub.root / "me/tiny")
    dispatch(["classify", "--model", "hf://me/tiny", "--text", "good"])
    assert json.loads(capsys.readouterr().out)["text"] == "good"
    assert len(hub.revisions) == 1


def test_what_the_hub_refuses_and_a_missing_package_are_one_line(hub, monkeypatch):
    with pytest.raises(InputError, match=r"^hf://me/none: OSError: me/none: 404 Not Found$"):
        load_model("hf://me/none")
    with pytest.raises(InputError, match=r"nor one of the Hugging Face hub \(hf://owner/name\)"):
        load_model("me/none")  # which is not looked up
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match="pip install huggingface_hub"):
        load_model("hf://me/tiny")
