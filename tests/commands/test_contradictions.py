"""Options that would do nothing, or contradict others, are refused before any work."""

import json
import shutil

import pytest

from data_utils.preparation.preparation import Preparation, prepare_corpus
from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.errors import InputError
from model.layers.config import ModelConfig
from tests.support.runs import ROOT, assert_refused

NAMES = ("own.toml", "corpus", "new", "own.json", "reviews.jsonl", "link.jsonl")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Reviews, a corpus of them, and a file that no run is in."""
    folder = tmp_path_factory.mktemp("work")
    rows = [json.dumps({"text": f"review number {n}"}) for n in range(30)]
    (folder / "reviews.jsonl").write_text("\n".join(rows))
    prepare_corpus([folder / "reviews.jsonl"], folder / "corpus", Preparation(split=(8, 1, 1)))
    (folder / "own.json").write_text('[{"text": "a review of mine"}]')
    shutil.copyfile(ROOT / "configs/clusters/h200.toml", folder / "own.toml")
    (folder / "link.jsonl").symlink_to(folder / "reviews.jsonl")
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("evaluate.py --data corpus --output corpus", "corpus: is a folder; name a file in it"),
        ("evaluate.py --data corpus --output own.toml/x", "own.toml is a file"),
        ("evaluate.py --data reviews.jsonl --split train", "reviews.jsonl is no folder"),
        ("evaluate.py --data corpus --text-key x", "--text-key is for a file of texts"),
        ("evaluate.py --data own.json --output own.json", "own.json: this is an input"),
        *(
            (f"evaluate.py --data corpus --output corpus/{name}", f"{name}: this is an input")
            for name in ("meta.json", "train.bin")
        ),
        *(
            (f"plan.py --model 64 --cluster own.toml {words}", "this is an input")
            for words in ("--output own.toml", "--corpus corpus --output corpus/meta.json")
        ),
        ("heatmap.py --input own.json --output own.json", "own.json: this is an input"),
        *(
            (f"classify.py --input reviews.jsonl --output {name}", f"{name}: {why}")
            for name, why in (("reviews.jsonl", "this is an input"), ("link.jsonl", "is a link"))
        ),
        ("prepare_corpus.py --check corpus --strict", "--strict is for preparing a corpus"),
        ("prepare_corpus.py --check corpus --split 5,5,5", "--split is for preparing a corpus"),
        *(
            (
                f"prepare_corpus.py reviews.jsonl --output new {option} 300",
                f"{option} is for --tokenizer bpe or unigram",
            )
            for option in ("--vocabulary-size", "--tokenizer-sample")
        ),
        ("prepare_corpus.py reviews.jsonl --output new --documents", "--documents is for text"),
        (
            "prepare_corpus.py reviews.jsonl --output new --keep-order --seed 5",
            "--seed shuffles nothing with --keep-order",
        ),
        ("benchmark.py step --output corpus", "corpus: is a folder"),
        ("transfer.py --output own.json --train t --val v --test t", "is a file; name a folder"),
        ("featurize.py --input - --output new", "featurize reads a file, not standard input"),
        ("generate.py --prompt hi --layer 7", "--layer is the layer of a clamped unit"),
        ("heatmap.py --text hi --text-key nope", "--text-key is for the rows of an --input"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(run_here, work, words, said):
    script, *rest = words.split()
    arguments = [str(work / word) if word.split("/")[0] in NAMES else word for word in rest]
    assert_refused(run_here(f"scripts/{script}", *arguments), said)
    assert not (work / "new").exists()
    assert "mine" in (work / "own.json").read_text()


@pytest.mark.parametrize("kind", [{"units": [3, 3]}, {"layers": [0, 0]}])
def test_no_number_of_the_state_is_read_twice(kind):
    with pytest.raises(InputError, match="name each once"):
        FeatureKind(**kind).size(ModelConfig(hidden_size=8))


SHORT = "--run-dir {new} --data.lanes 4 --data.window 16 --model.hidden_size 8 "


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--resume tests/fixtures/v1/run --if-exists refuse", "refuse and --resume contradict"),
        ("--resume {new}", "not a run directory"),
        (
            f"{SHORT} --train.steps 1 --evaluate.probe_train {{new}} --evaluate.probe_val {{new}}",
            "evaluate.probe_train and probe_val: ",
        ),
    ],
)
def test_a_run_says_which_settings_exclude_each_other(run_here, tmp_path, words, said):
    assert_refused(run_here("main.py", *words.format(new=tmp_path / "new").split()), said)
