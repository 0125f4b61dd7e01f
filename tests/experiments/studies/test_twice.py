"""A text that is read twice: which states belong to which reading, and what is told of them."""

from itertools import chain

import numpy as np
import pytest
import torch

from experiments.features import twice
from experiments.features.run import POOLINGS
from model.files.storage import read_json
from model.files.weights import load_model, save_model
from model.language_model import ModelConfig, build_model
from model.text.profiles import text_profile

TEXTS = ["one text", "another, which is a good deal longer than it", "x", "caf\N{COFFIN}"]


@pytest.fixture
def loaded(tmp_path):
    model = build_model(ModelConfig(hidden_size=6), seed=0)
    save_model(tmp_path / "model", model, text_profile("openai"), {})
    return load_model(tmp_path / "model", compute_dtype=torch.float32)


def cells(loaded, text):
    """Return the cell state after every byte of a text that is read alone, [n, H]."""
    state, found = loaded.model.initial_state(1), []
    with torch.inference_mode():
        for byte in text:
            _, state = loaded.model.hidden(torch.tensor([[byte]]), state, loaded.model.fold())
            found.append(state.c[-1, 0].numpy())
    return np.array(found, np.float64)


def last(states, axis):
    return states[-1]


def test_each_reading_is_pooled_by_itself(loaded):
    found = twice.states_of_both(loaded, TEXTS)
    assert found.shape == (len(TEXTS), len(twice.BOTH), 6)
    for text, of_text in zip(TEXTS, found, strict=True):
        first, again = f"\n {text} ".encode(), f"{text} ".encode()
        parts = np.split(cells(loaded, first + again), [len(first)])
        expected = [of(part, axis=0) for part in parts for of in (last, np.mean, np.max, np.min)]
        np.testing.assert_allclose(of_text, expected, atol=1e-6)
    assert POOLINGS == ("last", "mean", "max", "min")


def test_pieces_of_words_are_those_of_the_text_written_twice(subword_model, subwords, tmp_path):
    save_model(tmp_path / "m", subword_model, text_profile("openai"), {}, tokenizer=subwords)
    loaded = load_model(tmp_path / "m", compute_dtype=torch.float32)
    reading = twice.text_twice(loaded, "a good film")
    assert subwords.decode(reading.tokens) == b"\n a good film a good film"
    assert subwords.decode(reading.tokens[: reading.first]) == b"\n a good film"


def test_features_of_the_first_reading_of_the_second_and_of_both_are_compared():
    once, again, both = twice.trios()[1]
    assert once == ["cell last", "cell mean"]
    assert again == ["cell last, read again", "cell mean, read again"]
    assert both == [*once, *again]
    assert twice.trios()[-1][2] == list(twice.BOTH)


def test_the_second_reading_is_told_beside_the_first(loaded, tmp_path, monkeypatch):
    (tmp_path / "sst").mkdir()
    for part in ("train", "val", "test"):
        rows = "".join(f"{n % 2},{part} {'good' if n % 2 else 'bad'} {n}\n" for n in range(8))
        (tmp_path / "sst" / f"{part}.csv").write_text(f"label,sentence\n{rows}")
    output = tmp_path / "found.json"
    given = {"model": tmp_path / "model", "data": tmp_path, "sets": "sst", "output": output}
    words = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    monkeypatch.setattr("sys.argv", ["twice", *words])
    twice.main()
    of_set = read_json(output)["sets"]["sst"]
    assert of_set["examples"] == [8, 8, 8]
    assert [row["features"] for row in of_set["rows"][::2]] == [*chain(*twice.trios())]
    for unit in of_set["units"].values():
        gained = unit["again"]["test_accuracy"] - unit["once"]["test_accuracy"]
        assert unit["ahead"]["lost"] == pytest.approx(gained)
