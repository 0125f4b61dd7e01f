"""Files of format version 1, frozen: every later version of the code must read them.

The fixtures were written once, by the first release, and are never written again, with two
exceptions: the run's config.toml, which has no version, is that of today (keys that were closed
were removed from it), and the fine-tuned heads are of format 8, the oldest that is read.
"""

import json
import shutil

import numpy as np
import pytest
import torch

from data_utils.corpus import open_corpus
from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.engine.scoring import score_split
from model.inference.weights import load_model
from tests.support.runs import ROOT, assert_refused, rows_of, run, trained

V1 = ROOT / "tests/fixtures/v1"


def test_model_of_version_1_scores_what_it_scored():
    loaded = load_model(V1 / "run" / "model", compute_dtype=torch.float32)
    score = score_split(loaded, open_corpus(V1 / "corpus").splits["valid"], lanes=64)
    frozen = loaded.provenance["best_valid_bits_per_character"]
    assert score.bits_per_character == pytest.approx(frozen, rel=1e-5)


def test_a_run_of_version_1_resumes(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(V1 / "run", folder)
    before = rows_of(folder)
    trained(run("main.py", "--resume", folder, "--train.steps", "12", "--log.every_steps", "1"))
    rows = rows_of(folder)
    assert rows[: len(before)] == before
    assert [row["step"] for row in rows[len(before) :]] == [11, 12]
    assert rows[-1]["train_bits_per_character"] < before[0]["train_bits_per_character"]


NEWEST = "run/checkpoint/step-00000010/training.json"


@pytest.mark.parametrize("part", ["corpus/meta.json", "run/model/config.json", NEWEST])
def test_a_newer_version_is_refused_by_name(tmp_path, run_here, part):
    shutil.copytree(V1, tmp_path / "v")
    path = tmp_path / "v" / part
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 9}))
    if "checkpoint" in part:
        process = run_here("main.py", "--resume", tmp_path / "v/run", "--train.steps", "12")
    else:
        data = ("--model", tmp_path / "v/run", "--data", tmp_path / "v/corpus")
        process = run_here("scripts/evaluate.py", *data)
    assert_refused(process, path.name, "format_version 9 is newer")
    assert process.stderr.endswith("update the project\n")


def test_heads_of_format_8_give_the_same_answers():
    expected = json.loads((V1 / "finetuned/told.json").read_text())
    classifier = SentimentClassifier.from_pretrained(V1 / "finetuned")
    predictions = classifier.predict_all(expected["texts"])
    np.testing.assert_allclose(predictions.probabilities, expected["probabilities"], atol=1e-5)
    assert predictions.choices.tolist() == expected["labels"]
