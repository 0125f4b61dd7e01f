"""What a corpus says of itself is checked before its files are mapped."""

import json
import shutil
from pathlib import Path

import pytest

from data_utils.corpus import META_FILE, open_corpus
from model.errors import InputError

SAVED = Path(__file__).parents[2] / "fixtures/v1/corpus"


@pytest.mark.parametrize(
    ("section", "key", "value", "told"),
    [
        ("train", "reviews", -1, "splits.train.reviews is -1; it must be at least zero"),
        ("valid", "bytes", True, "splits.valid.bytes is True; it must be a whole number"),
        ("test", "reviews", 10.0, "splits.test.reviews is 10.0; it must be a whole number"),
        ("test", "reviews", 2**70, "splits.test.reviews is too large a number"),
        ("test", "sha256", 5, "splits.test.sha256 is 5; it must be text"),
        ("test", "sha256", None, "splits.test.sha256 is None; it must be text"),
        ("splits", "train", [], r"splits.train is \[\]; it must be a section"),
        ("meta", "splits", None, "splits is None; it must be a section"),
        ("meta", "sources", "fix.jsonl", "sources is 'fix.jsonl'; it must be a list"),
        ("meta", "reading", {"records": "many"}, "reading is .*; it must be a section"),
        ("meta", "text_profile", "none", "text profile"),
    ],
)
def test_a_damaged_description_is_refused_by_name(tmp_path, section, key, value, told):
    shutil.copytree(SAVED, tmp_path / "corpus")
    path = tmp_path / "corpus" / META_FILE
    meta = json.loads(path.read_text())
    {"meta": meta, "splits": meta["splits"], **meta["splits"]}[section][key] = value
    path.write_text(json.dumps(meta))
    with pytest.raises(InputError, match=rf"{META_FILE}: .*{told}.*; prepare the corpus again$"):
        open_corpus(path.parent)
