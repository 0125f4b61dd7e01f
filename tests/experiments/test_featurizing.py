"""The featurizing study: what padding costs, and a run on small texts."""

import json

import numpy as np
import pytest

from configs.command import parse
from experiments.speed import featurizing
from model.errors import InputError
from model.files.weights import save_model
from model.inference.features import features_in_order
from model.text.profiles import text_profile

SEQUENCES = [np.full(length, 65, np.uint8) for length in (3, 9, 1, 8)]


def test_a_batch_costs_its_longest_text():
    assert featurizing.padded_size(SEQUENCES, 2) == 2 * 9 + 2 * 8
    assert featurizing.padded_size(sorted(SEQUENCES, key=len, reverse=True), 2) == 2 * 9 + 2 * 3


def test_padded_batches_read_every_text_whole(small_model):
    """Of equal lengths there is no pad, and the last state is the feature."""
    texts = [
        np.frombuffer(text, np.uint8) for text in (b"good " * 40, b"bad, " * 40, b"so so" * 40)
    ]
    read = np.concatenate(featurizing.read_padded(small_model, texts, batch_size=2))
    np.testing.assert_allclose(read, features_in_order(small_model, texts), rtol=1e-5, atol=1e-6)


def test_a_run_writes_speeds_ratios_and_origin(small_model, tmp_path, capsys):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    lines = (json.dumps({"text": "word " * count}) for count in range(1, 30))
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    output = tmp_path / "results" / "small.json"
    few = {"texts": 20, "batch_size": 8, "rounds": 2}
    places = {"model": str(tmp_path / "model"), "input": tmp_path / "texts.jsonl"}
    featurizing.compare(featurizing.Options(**places, **few, output=output))
    result = json.loads(output.read_text())
    assert result["texts"] == 20
    assert result["characters"] < result["padded_characters"]["padded_sorted"]
    assert result["padded_characters"]["padded_sorted"] < result["padded_characters"]["padded"]
    assert {len(seconds) for seconds in result["seconds"].values()} == {2}
    for value in result["ratios"].values():
        assert 0 < value["low"] <= value["median"] <= value["high"]
    assert str(tmp_path) not in json.dumps(result)
    assert "times as fast as padded_sorted" in capsys.readouterr().out


def test_counts_below_one_are_refused():
    words = ["--input", "texts.txt", "--output", "o.json", "--batch-size", "0"]
    with pytest.raises(InputError, match="--batch-size is 0; it must be at least 1"):
        parse(featurizing.Options, arguments=words)
