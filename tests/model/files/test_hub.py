"""A model directory as a hub repository, against a stand-in for huggingface_hub."""

import json
import re
import shutil
import sys
from fnmatch import fnmatch
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open

from model import SentimentClassifier, SentimentFeaturizer, load_model, save_model
from model.classifiers.classifier import Classifier, save_classifier
from model.classifiers.push import push_to_hub
from model.commands.command_line import dispatch
from model.errors import InputError
from model.files.hub import fetch_from_hub
from model.files.weights import model_digest
from model.text.profiles import text_profile


class Hub:
    """Repositories as folders, with the calls that model.files.hub makes."""

    def __init__(self, root):
        self.root = root
        self.revisions = []

    def HfApi(self, token):
        return self

    def create_repo(self, repository, private, exist_ok):
        (self.root / repository).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(self, repo_id, folder_path):
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)
        return f"https://hub/{repo_id}"

    def snapshot_download(self, repository, revision, allow_patterns):
        if not (self.root / repository).is_dir():
            raise OSError(f"{repository}: 404 Not Found\n\nTell its owner.")
        self.revisions.append(revision)
        for path in (self.root / repository).rglob("*"):
            name = path.relative_to(self.root / repository).as_posix()
            assert path.is_dir() or any(fnmatch(name, pattern) for pattern in allow_patterns)
        return str(self.root / repository)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    hub = Hub(tmp_path / "hub")
    calls = SimpleNamespace(HfApi=hub.HfApi, snapshot_download=hub.snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", calls)
    return hub


@pytest.fixture
def folder(small_model, tmp_path):
    provenance = {"steps": 7, "best_valid_bits_per_character": 1.5}
    save_model(tmp_path / "model", small_model, text_profile("openai"), provenance)
    return tmp_path / "model"


def give_classifier(folder, test="--test 'my reviews.csv'"):
    digest = model_digest(load_model(folder).model)
    classifier = Classifier(np.ones(12, np.float32), 0.0, ("no", "yes"), 4, -1, digest)
    save_classifier(folder.parent / "transfer" / "classifier", classifier)
    command = f"scripts/transfer.py --model m {test} --output out"
    results = {
        "test_accuracy": 0.7,
        "threshold": {"test_accuracy": 0.81256},  # as it is published
        "origin": {"command": command},
    }
    (folder.parent / "transfer" / "results.json").write_text(json.dumps(results))


def test_what_is_pushed_can_be_loaded_by_its_name(folder, hub, capsys):
    """A run, with the classifier that was fitted on it."""
    give_classifier(folder)
    (folder / "notes.txt").write_text("private")
    dispatch(["push", str(folder.parent), "me/tiny"])
    assert capsys.readouterr().out == "https://hub/me/tiny\n"
    fetched = hub.root / "me/tiny"
    names = {path.relative_to(fetched).as_posix() for path in fetched.rglob("*") if path.is_file()}
    classifier = {"classifier/classifier.json", "classifier/classifier.safetensors"}
    files = {"config.json", "model.safetensors", "README.md"}
    assert names == files | classifier
    assert not (folder / "README.md").exists()  # the model's own folder stays as it is
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
    give_classifier(folder)
    push_to_hub(folder, "me/tiny")
    dispatch(["classify", "--model", "hf://me/tiny", "--text", "good"])
    assert json.loads(capsys.readouterr().out)["text"] == "good"
    assert len(hub.revisions) == 1


@pytest.mark.parametrize("test", ["--test 'my reviews.csv'", "'--test=my reviews.csv'"])
def test_the_card_says_what_the_models_files_say(folder, hub, test):
    give_classifier(folder, test)
    push_to_hub(folder, "me/tiny")
    card = (hub.root / "me/tiny/README.md").read_text()
    assert card.startswith("---\nlibrary_name: mlstm_sentiment\n")
    assert "1 x 12 units" in card
    assert '"steps": 7' in card
    assert 'from_pretrained("hf://me/tiny")' in card
    (index,) = re.findall("^model-index: (.*)$", card, re.MULTILINE)
    (measured,) = json.loads(index)
    assert measured["name"] == "tiny"
    told = [(r["dataset"]["name"], r["metrics"][0]["value"]) for r in measured["results"]]
    assert told == [("its corpus", 1.5), ("my reviews.csv", 0.8126)]


def test_a_model_that_nobody_measured_has_no_index(small_model, tmp_path, hub):
    save_model(tmp_path / "m", small_model, text_profile("openai"), {})
    push_to_hub(tmp_path / "m", "me/tiny")
    assert "model-index" not in (hub.root / "me/tiny/README.md").read_text()


def test_a_vocabulary_goes_with_its_model(subword_model, subwords, tmp_path, hub):
    save_model(tmp_path / "m", subword_model, text_profile("openai"), {}, tokenizer=subwords)
    push_to_hub(tmp_path / "m", "me/tiny")
    fetched = tmp_path / "hub" / "me" / "tiny"
    assert (fetched / "tokenizer.model").read_bytes() == subwords.content
    assert "A SentencePiece (bpe) mlstm" in (fetched / "README.md").read_text()


def test_an_existing_card_is_kept(folder, tmp_path, hub):
    (folder / "README.md").write_text("mine")
    push_to_hub(folder, "me/tiny")
    assert (tmp_path / "hub/me/tiny/README.md").read_text() == "mine"


def test_a_folder_is_written_instead(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    output = tmp_path / "new" / "folder"
    dispatch(["push", str(folder), "me/tiny", "--output", str(output)])
    assert load_model(output).provenance["steps"] == 7
    with pytest.raises(InputError, match="exists already"):
        dispatch(["push", str(folder), "me/tiny", "--output", str(output)])


@pytest.mark.parametrize("repository", ["tiny", "a/b/c", "/tiny", "me/"])
def test_a_repository_has_an_owner_and_a_name(folder, repository):
    with pytest.raises(InputError, match="is named owner/name"):
        dispatch(["push", str(folder), repository])


def test_what_the_hub_refuses_is_one_line(hub):
    with pytest.raises(InputError, match=r"^hf://me/none: OSError: me/none: 404 Not Found$"):
        load_model("hf://me/none")


def test_a_model_that_is_absent_is_not_looked_up(hub):
    with pytest.raises(InputError, match=r"nor one of the Hugging Face hub \(hf://owner/name\)"):
        load_model("me/none")


def test_a_model_directory_has_the_hubs_layout(folder):
    """config.json is an object; model.safetensors says, as the hub's reader asks, it is torch's."""
    assert isinstance(json.loads((folder / "config.json").read_text()), dict)
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert "embedding.weight" in set(file.keys())


def test_without_the_package_the_error_says_how_to_install_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match="pip install huggingface_hub"):
        push_to_hub(folder, "me/tiny")
    with pytest.raises(InputError, match="pip install huggingface_hub"):
        fetch_from_hub("me/tiny")
