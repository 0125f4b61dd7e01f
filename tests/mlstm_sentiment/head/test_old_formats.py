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
        found = each.neuron, each.polarity, each.neuron_column, list(each.unsure)
        assert found == tuple(expected[key] for key in ("unit", "polarity", "column", "unsure"))
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
        ({"classes": ["a", "b", "c"]}, "not a description of a head: 1 scores for 3 classes"),
        ({"format_version": 3}, "'exclusive' is missing"),
        (POOLED | {"pooling": ["sum"]}, r"pooling is \('sum',\)"),
        (POOLED | {"pooling": ["last"]}, "neuron.pooling is 'mean'"),
        (POOLED | {"pooling": ["last", "mean"]}, "it takes 2 units; the model has 4"),
        ({"threshold": 1.5}, r"thresholds is \(1.5,\)"),
        ({"neuron": {"index": 4, "polarity": 1}}, "neuron.index is 4; it must be below 4"),
    ],
    "3_several_labels": [
        ({"classes": ["a"]}, "it has 1 of them"),
        ({"exclusive": "no"}, "'no' is missing, or unknown"),
        ({"thresholds": [0.5]}, "1 thresholds for 3 classes"),
    ],
    "7_neutral": [
        ({"pooling": ["last"]}, "it takes 8 units; the model has 4"),
        ({"classes": ["a", "b", "c"]}, "1 scores for 3 classes"),
        ({"calibration": {"slope": 0.0, "offset": 0.0}}, "calibration.slope is 0.0"),
        ({"unsure": [0.7, 0.2]}, "the lower one comes first"),
        ({"neutral": {"slope": -1.0}}, "slope is -1"),
        ({"ngrams": {"buckets": 32, "scale": 10**400}}, "ngrams.scale is 1000"),
        ({"ngrams": None}, "it is damaged"),
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
