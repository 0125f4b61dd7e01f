"""A corpus is checked against its description; any change is named."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from data_utils import corpus
from data_utils.corpus import META_FILE, open_corpus
from data_utils.preparation.preparation import Preparation, check_corpus, prepare_corpus
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import read_json
from tests.data_utils.splits import write_texts

SAVED = Path(__file__).parents[2] / "fixtures/v1/corpus"


@pytest.fixture
def folder(tmp_path):
    source = write_texts(tmp_path / "in.jsonl", (f"review number {i}" for i in range(50)))
    prepare_corpus([source], tmp_path / "out", Preparation(split=(8, 1, 1)))
    return tmp_path / "out"


@pytest.mark.parametrize("name", ["train.bin", "valid.offsets", "test.bin"])
@pytest.mark.parametrize("place", [0, -1])
def test_a_changed_bit_is_named(folder, name, place):
    content = bytearray((folder / name).read_bytes())
    content[place] ^= 4
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}: (has changed since|the offsets do not rise)"):
        check_corpus(folder)


def rewrite_offsets(folder, change):
    """Change the offsets of a corpus of the first release, which had no digest of them."""
    offsets = np.fromfile(folder / "train.offsets", "<i8")
    change(offsets)
    offsets.tofile(folder / "train.offsets")
    meta = read_json(folder / "meta.json")
    for split in meta["splits"].values():
        del split["offsets_sha256"]
    (folder / "meta.json").write_text(json.dumps(meta))


@pytest.mark.parametrize(
    ("place", "value"), [(0, 1), (-1, 5), (3, -5), (3, 1 << 62), (slice(2, 9), 0)]
)
def test_a_corpus_with_offsets_that_do_not_rise_is_not_opened(folder, monkeypatch, place, value):
    monkeypatch.setattr(corpus, "PIECE_SIZE", 3)
    rewrite_offsets(folder, lambda offsets: offsets.__setitem__(place, value))
    with pytest.raises(
        InputError, match=r"train.offsets: the offsets do not rise from 0 to the end of "
    ):
        open_corpus(folder)


def test_a_corpus_with_another_split_or_vocabulary_has_another_fingerprint():
    meta = {"splits": {name: {"sha256": "a" * 64} for name in corpus.SPLITS}}
    changed = [{"splits": meta["splits"] | {name: {"sha256": "b" * 64}}} for name in corpus.SPLITS]
    changed += [meta | {"tokenizer_sha256": digit * 64} for digit in "cd"]
    fingerprints = {corpus.Corpus({}, each).fingerprint for each in (meta, *changed)}
    assert len(fingerprints) == 1 + len(changed)


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("train", "reviews", -1, "splits.train.reviews is -1; it must be at least zero"),
        ("valid", "bytes", True, "splits.valid.bytes is True; it must be a whole number"),
        ("test", "reviews", 10.0, "splits.test.reviews is 10.0; it must be a whole number"),
        ("test", "reviews", 2**70, "splits.test.reviews is too large a number"),
        ("test", "sha256", 5, "splits.test.sha256 is 5; it must be text"),
        ("meta", "splits", {}, "splits.train is missing"),
        ("splits", "train", [], r"splits.train is \[\]; it must be a section"),
        ("meta", "sources", "fix.jsonl", "sources is 'fix.jsonl'; it must be a list"),
        ("meta", "reading", {"records": "many"}, "reading is .*; it must be a section"),
        ("meta", "text_profile", "none", "text profile"),
    ],
)
def test_a_damaged_description_is_refused_by_name(tmp_path, section, key, value, message):
    shutil.copytree(SAVED, tmp_path / "corpus")
    path = tmp_path / "corpus" / META_FILE
    meta = json.loads(path.read_text())
    {"meta": meta, "splits": meta["splits"], **meta["splits"]}[section][key] = value
    path.write_text(json.dumps(meta))
    with pytest.raises(InputError, match=rf"{META_FILE}: .*{message}.*; prepare the corpus again$"):
        open_corpus(path.parent)


def test_a_corpus_of_the_first_release_passes(folder):
    rewrite_offsets(folder, lambda offsets: None)
    assert check_corpus(folder)["test"]["reviews"] == 5
