"""The training of start_again.md in one call, here of a small network on a CPU."""

import os
import subprocess
import sys

import pytest

from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.engine.engine import Engine
from tests.support.runs import ROOT, done, run

SCRIPT = ROOT / "experiments" / "models" / "start_again.sh"


@pytest.mark.slow
def test_a_packed_corpus_trains_for_the_time_there_is_and_gives_weights_home(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(r.text for r in synthetic_reviews(3000, seed=0)))
    prepared = ("--output", tmp_path / "corpus", "--tokenizer", "bpe", "--vocabulary-size", "300")
    done(run("scripts/prepare_corpus.py", tmp_path / "texts.txt", *prepared))
    environment = {
        **os.environ,
        **{"PYTHON": sys.executable, "DEVICE": "cpu", "TRIAL": "150", "SECONDS_IN_ALL": "30"},
    }

    def call(*arguments):
        small = () if arguments[0] == "pack" else ("--model.hidden-size", "64", "--data.lanes", "8")
        command = ["bash", SCRIPT, *arguments, *small]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=240)

    call("pack", tmp_path / "corpus", tmp_path / "corpus.tar.xz")
    home = tmp_path / "home"
    call("train", tmp_path / "corpus.tar.xz", home)
    parts = b"".join(path.read_bytes() for path in sorted(home.glob("weights.*")))
    (home / "model.safetensors").write_bytes(parts)
    (home / "tokenizer.model").write_bytes((tmp_path / "corpus" / "tokenizer.model").read_bytes())
    assert Engine.load(home).read(["Good."], ("last",)).features(("last",)).shape == (1, 64)
    assert (home / "metrics.jsonl").exists()


def test_without_arguments_the_script_says_what_it_takes():
    process = subprocess.run(["bash", SCRIPT], capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "pack CORPUS ARCHIVE" in process.stderr
