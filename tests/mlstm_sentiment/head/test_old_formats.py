"""Heads of formats 1 to 7, as earlier versions wrote them, answer as they did then.

Each folder of tests/fixtures/classifiers was written by the last version that knew three kinds of
classifier; `expected.json` has features, texts, and what that version said of them.
"""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import CONFIG_FILE, WEIGHTS_FILE, load_head, save_head
from tests.support.runs import ROOT

FIXTURES = ROOT / "tests/fixtures/classifiers"
NAMES = sorted(path.name for path in FIXTURES.iterdir())
H = 4


def test_every_format_has_a_fixture():
    versions = [
        json.loads((FIXTURES / n / CONFIG_FILE).read_text())["format_version"] for n in NAMES
    ]
    assert set(versions) == {1, 2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_said_then(tmp_path, name):
    expected = json.loads((FIXTURES / name / "expected.json").read_text())
    head = load_head(FIXTURES / name, H)
    save_head(tmp_path, head)
    features = np.array(expected["features"], np.float32)
    for each in (head, load_head(tmp_path, H)):
        answer = each.answer(features, expected["texts"])
        # Networks were computed in fp32.
        np.testing.assert_allclose(answer.probabilities, expected["probabilities"], rtol=3e-6)
        np.testing.assert_allclose(answer.scores, expected["scores"], rtol=1e-5, atol=1e-5)
        assert each.choose(answer.probabilities).tolist() == expected["choices"]
        for values, before in ((answer.stars, "stars"), (answer.neutral, "neutral")):
            assert (values is None) == (expected[before] is None)
            if values is not None:
                np.testing.assert_allclose(values, expected[before], rtol=3e-6)
        found = each.neuron, each.polarity, each.neuron_column
        assert found == tuple(expected[key] for key in ("unit", "polarity", "column"))
        # A range that the file does not have moved with the threshold, but not in log-odds.
        assert each.unsure == pytest.approx(expected["unsure"], abs=0 if each.doubt else 5e-3)
        ratio = each.influence / np.array(expected["influence"])  # of stars calibrated now
        np.testing.assert_allclose(ratio, ratio.flat[0], rtol=1e-4)
        assert ratio.flat[0] > 0


def changed(tmp_path, name, change):
    """A copy of a fixture whose description is changed."""
    folder = tmp_path / name
    shutil.copytree(FIXTURES / name, folder)
    path = folder / CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    return folder


POOLED = {"format_version": 4, "neuron": {"index": 0, "polarity": 1, "pooling": "mean"}}
DAMAGED = {
    "1_binary": [
        ({"classes": ["a", "b", "c"]}, "not a description of two classes"),
        ({"format_version": 2}, "it has 2 of them"),
        (POOLED | {"pooling": ["sum"]}, r"pooling is \('sum',\)"),
        (POOLED | {"pooling": ["last", "mean"]}, r"coefficients is \[4\], but .* \[8\]"),
        ({"state": "hidden"}, "state is 'hidden'; it must be cell"),
        ({"link": "probit"}, "link is 'probit'"),
        ({"neuron": {"index": 4, "polarity": 1}}, "neuron.index is 4; it must be below 4"),
    ],
    "3_several_labels": [
        ({"kind": "trees"}, "kind is 'trees'; it must be heads"),
        ({"thresholds": [0.5]}, "1 thresholds for 3 classes"),
        ({"heads": {"hidden_layers": [7]}}, "tensor"),
        ({"heads": {"hidden_layers": [1] * 100_000}}, "number of hidden layers is 100000"),
        ({"heads": {"hidden_layers": [], "heads_per_class": 2**40}}, "heads_per_class is 10995"),
    ],
    "7_neutral": [
        ({"kind": "heads"}, "kind is 'heads'; it must be stars"),
        ({"pooling": ["last"]}, "state and pooling are"),
        ({"classes": ["a", "b", "c"]}, "classes is .*; it must be a list of 2"),
        ({"ngrams": {"buckets": 33, "scale": 1.0}}, "tensor weights"),
        ({"ngrams": {"buckets": 32, "scale": 10**400}}, "ngrams.scale is too large a number"),
        ({"ngrams": None}, "ngrams is None; it must be a section"),
        ({"heads": {"hidden_layers": [4]}}, "a head that predicts stars must be linear"),
    ],
}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [(name, *case) for name, cases in DAMAGED.items() for case in cases],
)
def test_a_description_that_does_not_fit_is_refused(tmp_path, name, change, message):
    folder = changed(tmp_path, name, change)
    with pytest.raises(InputError, match=message):
        load_head(folder, H)


def test_damaged_weights_are_refused(tmp_path):
    folder = changed(tmp_path, "3_binary", {})
    whole = load_file(folder / WEIGHTS_FILE)
    for name, value, message in (
        ("heads.bias", torch.nan, r"heads\.bias holds NaN"),
        ("scale", 0.0, "scale, which divides the features"),
    ):
        tensors = {key: tensor.clone() for key, tensor in whole.items()}
        tensors[name][0] = value
        save_file(tensors, folder / WEIGHTS_FILE)
        with pytest.raises(InputError, match=message):
            load_head(folder, H)
