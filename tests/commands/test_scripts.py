"""The scripts as processes: a corpus prepared, a model trained, scored, featurized, transferred."""

import json
import shutil

import numpy as np
import pytest

from mlstm_sentiment import SentimentFeaturizer
from tests.support.folders import contents
from tests.support.runs import assert_refused, done, run, small_run


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A prepared corpus, a trained model and labelled files, all small."""
    folder = tmp_path_factory.mktemp("work")
    done(run("scripts/synthesize_reviews.py", "--output", folder / "labelled"))
    for split, count in (("train", 300), ("val", 80), ("test", 80)):
        lines = (folder / "labelled" / f"{split}.csv").read_text().splitlines()[: count + 1]
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")
    done(run(
        "scripts/prepare_corpus.py", folder / "train.csv", folder / "val.csv",
        "--output", folder / "corpus", "--split", "8,1,1",
    ))  # fmt: skip
    done(run(*small_run(folder / "run", 20, **{"data.corpus": folder / "corpus"})))
    return folder


def test_featurize_writes_what_the_featurizer_returns_in_input_order(work):
    words = ("--state", "hidden", "--pooling", "max", "--tanh", "--layers", 0, "--units", 3, 1)
    options = {"state": "hidden", "pooling": "max", "tanh": True, "layers": [0], "units": [3, 1]}
    texts = ["short", "a much longer text about nothing at all", "short"]
    (work / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    done(run(
        "scripts/featurize.py", "--model", work / "run", "--input", work / "texts.jsonl",
        "--output", work / "features.npy", "--device", "cpu", *words,
    ))  # fmt: skip
    features = np.load(work / "features.npy", allow_pickle=False)
    assert features.dtype == np.float32
    expected = SentimentFeaturizer.from_pretrained(work / "run", **options).transform(texts)
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(features[0], features[2], rtol=1e-5, atol=1e-6)


def transfer(work, output, run=run, **changes):
    options = {
        "model": work / "run",
        "train": work / "train.csv",
        "val": work / "val.csv",
        "test": work / "test.csv",
        "output": output,
    } | changes
    pairs = [word for key, value in options.items() for word in (f"--{key}", value)]
    return run("scripts/transfer.py", *pairs)


@pytest.fixture(scope="module")
def transferred(work):
    """The folder of a transfer, and what it printed."""
    return work / "transfer", done(transfer(work, work / "transfer")).stdout


def test_transfer_prints_the_table_and_writes_results(work, transferred):
    folder, printed = transferred
    results = json.loads((folder / "results.json").read_text())
    assert {"train_accuracy", "val_accuracy", "test_accuracy", "c", "nonzero"} <= set(results)
    assert {"index", "polarity", "test_accuracy"} <= set(results["neuron"])
    for words in ("all units", "TF-IDF", "untrained mLSTM", "majority class"):
        assert words in printed
    command = ("scripts/classify.py", "--model", work / "run", "--classifier", folder)
    assert printed.endswith(f"next: python {' '.join(map(str, command))} --text 'I love it.'\n")
    process = done(run(*command, "--sides", "--input", work / "test.csv"))
    rows = [json.loads(line) for line in process.stdout.splitlines()]
    right = [row["label"] == row["input_label"] for row in rows]
    assert np.mean(right) == results["threshold"]["test_accuracy"]


def test_synthetic_reviews_replace_nothing_but_themselves(work, tmp_path, run_here):
    before = (work / "labelled/val.csv").read_text()
    done(run_here("scripts/synthesize_reviews.py", "--output", work / "labelled"))
    assert (work / "labelled/val.csv").read_text() == before
    mine = tmp_path / "val.csv"
    mine.write_text("mine")
    process = run_here("scripts/synthesize_reviews.py", "--output", tmp_path)
    assert_refused(process, f"{mine}: exists already; remove it, or name another --output")
    assert [path.name for path in contents(tmp_path)] == ["val.csv"]
    process = run_here("scripts/synthesize_reviews.py", "--output", mine)
    assert_refused(process, f"--output {mine}: is a file; name a folder")
    assert mine.read_text() == "mine"


def neuron(work, output, *options, run=run):
    return run(
        "scripts/neuron.py", "--model", work / "run", "--train", work / "train.csv",
        "--val", work / "val.csv", "--test", work / "test.csv", "--output", output,
        "--labels", "10", "--draws", "1", "--untrained", "1", *options,
    )  # fmt: skip


def test_neuron_takes_the_features_of_a_transfer_and_prints_its_table(work, transferred):
    folder, _ = transferred
    before = {path: path.stat().st_mtime_ns for path in contents(folder / "features")}
    process = done(neuron(work, folder, "--neuron", "5"))
    after = {path: path.stat().st_mtime_ns for path in contents(folder / "features")}
    assert before == after  # the untrained model's too, of the same seed
    results, before = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("neuron", "results")
    )
    assert results["all_units"]["test_accuracy"] == before["test_accuracy"]
    assert results["baselines"] == before["baselines"]
    assert results["neuron"]["index"] == 5
    for words in ("unit 5 alone, one threshold", "all units but 5", "TF-IDF", "neuron.json"):
        assert words in process.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--neuron", "16"], ["unit 16", "0 to 15"]),
        (["--positive", "five"], ["'five'", "'0', '1'"]),
        (["--seed", "-1"], ["--seed is -1"]),
    ],
)
def test_neuron_refuses(work, tmp_path, run_here, options, words):
    assert_refused(neuron(work, tmp_path / "out", *options, run=run_here), *words)
    assert not (tmp_path / "out/neuron.json").exists()


@pytest.mark.parametrize(
    ("content", "changes", "words"),
    [
        (b"text,label\ngood,1\nfine,1\n", {}, ["bad.csv", "found 1"]),
        (b"text,label\ngood,1\nbad,0\n", {"model": "best"}, ["'best'", "shipped model"]),
    ],
)
def test_transfer_refuses(work, tmp_path, run_here, content, changes, words):
    (tmp_path / "bad.csv").write_bytes(content)
    changes = {"train": tmp_path / "bad.csv", **changes}
    assert_refused(transfer(work, tmp_path / "refused", run_here, **changes), *words)
    assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("missing.jsonl --output {new}", "missing.jsonl: no such file"),
        ("{work}/train.csv --output {work}/corpus", "exists already"),
        ("{work}/train.csv --output {new} --text-key body", "no key 'body'"),
        ("{work}/train.csv --output {new} --split a,b", "--split: 'a' is not a number"),
        ("{work}/train.csv --output {new} --text-profile x", "profile 'x'"),
        ("{work}/train.csv --output {new} --workers -3", "--workers is -3"),
        ("--output {new}", "give input files and --output FOLDER"),
        ("{work}/train.csv --check {work}/corpus", "--check takes neither input files"),
    ],
)
def test_prepare_corpus_refuses(work, tmp_path, run_here, arguments, said):
    words = arguments.format(work=work, new=tmp_path / "new").split()
    assert_refused(run_here("scripts/prepare_corpus.py", *words), said)
    assert not list(contents(tmp_path))


def test_evaluate_refuses_a_corpus_of_another_profile(work, tmp_path, run_here):
    words = ("--output", tmp_path / "raw", "--text-profile", "raw", "--split", "8,1,1")
    done(run_here("scripts/prepare_corpus.py", work / "val.csv", *words))
    process = run_here("scripts/evaluate.py", "--model", work / "run", "--data", tmp_path / "raw")
    assert_refused(process, "text profile 'raw'", "'openai'")


def test_prepare_corpus_checks_one(work, tmp_path, run_here):
    process = done(run_here("scripts/prepare_corpus.py", "--check", work / "corpus"))
    assert process.stdout.count("as prepared") == 3
    folder = tmp_path / "corpus"
    shutil.copytree(work / "corpus", folder)
    content = bytearray((folder / "train.bin").read_bytes())
    content[5] ^= 1
    (folder / "train.bin").write_bytes(content)
    process = run_here("scripts/prepare_corpus.py", "--check", folder)
    assert_refused(process, "train.bin", "has changed since it was prepared")
