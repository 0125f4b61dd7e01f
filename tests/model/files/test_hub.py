"""A model directory as a hub repository, against a stand-in for huggingface_hub."""

import json
import shutil
import sys
from fnmatch import fnmatch
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open

from model import SentimentFeaturizer, save_model
from model.errors import InputError
from model.files.hub import fetch_from_hub, push_to_hub
from model.text.profiles import text_profile


class Hub:
    """Repositories as folders, with the calls that model.files.hub makes."""

    def __init__(self, root):
        self.root = root

    def HfApi(self, token):
        return self

    def create_repo(self, repository, private, exist_ok):
        (self.root / repository).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(self, repo_id, folder_path, allow_patterns):
        for path in folder_path.rglob("*"):
            name = path.relative_to(folder_path).as_posix()
            if path.is_file() and any(fnmatch(name, pattern) for pattern in allow_patterns):
                (self.root / repo_id / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, self.root / repo_id / name)
        return f"https://hub/{repo_id}"

    def snapshot_download(self, repository, revision, token, allow_patterns):
        return str(self.root / repository)


@pytest.fixture
def folder(small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {"steps": 7})
    return tmp_path / "model"


def test_what_is_pushed_can_be_fetched_and_used(folder, tmp_path, monkeypatch):
    hub = Hub(tmp_path / "hub")
    monkeypatch.setitem(
        sys.modules,
        "huggingface_hub",
        SimpleNamespace(HfApi=hub.HfApi, snapshot_download=hub.snapshot_download),
    )
    (folder / "classifier").mkdir()
    (folder / "classifier" / "classifier.json").write_text("{}")
    (folder / "notes.txt").write_text("private")
    assert push_to_hub(folder, "me/tiny") == "https://hub/me/tiny"
    fetched = fetch_from_hub("me/tiny")
    names = {path.name for path in fetched.rglob("*") if path.is_file()}
    assert names == {"config.json", "model.safetensors", "README.md", "classifier.json"}
    texts = ["good", "bad"]
    np.testing.assert_array_equal(
        SentimentFeaturizer.from_pretrained(fetched).transform(texts),
        SentimentFeaturizer.from_pretrained(folder).transform(texts),
    )
    card = (fetched / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: mlstm_sentiment\n")
    assert "1 x 12 units" in card
    assert '"steps": 7' in card


def test_a_vocabulary_goes_with_its_model(subword_model, subwords, tmp_path, monkeypatch):
    hub = Hub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=hub.HfApi))
    save_model(tmp_path / "m", subword_model, text_profile("openai"), {}, tokenizer=subwords)
    push_to_hub(tmp_path / "m", "me/tiny")
    fetched = tmp_path / "hub" / "me" / "tiny"
    assert (fetched / "tokenizer.model").read_bytes() == subwords.content
    assert "A SentencePiece (bpe) mlstm" in (fetched / "README.md").read_text()


def test_a_card_of_ones_own_is_kept(folder, tmp_path, monkeypatch):
    hub = Hub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=hub.HfApi))
    (folder / "README.md").write_text("mine")
    push_to_hub(folder, "me/tiny")
    assert (tmp_path / "hub/me/tiny/README.md").read_text() == "mine"


def test_a_model_directory_has_the_hubs_layout(folder):
    """config.json is an object; model.safetensors says, as the hub's reader asks, it is torch's."""
    assert isinstance(json.loads((folder / "config.json").read_text()), dict)
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert "embedding.weight" in set(file.keys())


def test_without_the_package_the_way_to_it_is_said(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match="pip install huggingface_hub"):
        push_to_hub(folder, "me/tiny")
    with pytest.raises(InputError, match="pip install huggingface_hub"):
        fetch_from_hub("me/tiny")
