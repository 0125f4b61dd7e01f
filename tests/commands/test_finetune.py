"""scripts/finetune.py as a command: what it prints, writes and refuses.

Also what classify makes of what it writes. A refusal is one line, with nothing written.
"""

import csv
import io
import json

import pytest

from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import save_model
from tests.support.runs import assert_refused, done
from tests.transfer.finetuning.tasks import CLASSES, several, single


def write(path, part):
    """Write a labelled set as CSV, several labels as columns of 0 and 1."""
    names = part.classes if part.is_multilabel else ["label"]
    cells = io.StringIO()
    writer = csv.writer(cells)
    writer.writerow(["text", *names])
    for text, label in zip(part.texts, part.labels.tolist(), strict=True):
        writer.writerow([text, *(label if part.is_multilabel else [part.classes[label]])])
    path.write_text(cells.getvalue())


@pytest.fixture
def work(tmp_path, small_model):
    save_model(tmp_path / "m", small_model, text_profile("openai"), {})
    for name, count, seed in (("train", 60, 0), ("val", 30, 100)):
        write(tmp_path / f"{name}.csv", single(count, seed))
        write(tmp_path / f"moods-{name}.csv", several(count, seed))
    return tmp_path


@pytest.fixture
def call(work, run_here):
    """Return a function that runs a script with the model of `work`, unless another is given."""

    def call(script, *arguments):
        model = () if "--model" in arguments else ("--model", work / "m")
        return run_here(f"scripts/{script}.py", *model, *arguments)

    return call


def test_from_labels_to_labels(work, call):
    process = done(call(
        "finetune", "--train", work / "moods-train.csv", "--val", work / "moods-val.csv",
        "--test", work / "moods-val.csv", "--label-keys", *CLASSES, "--output", work / "out",
        "--epochs", 2, "--hidden-layers", 6, 4, "--heads-per-class", 2, "--head-lr", 0.03,
    ))  # fmt: skip
    results = json.loads((work / "out/results.json").read_text())
    assert results["config"]["hidden_layers"] == [6, 4]
    line = next(row for row in process.stdout.splitlines() if row.startswith("f1_macro"))
    low, high = results["test"]["f1_macro_interval"]
    value = f"{results['test']['f1_macro']:.4f}"
    assert line.split() == ["f1_macro", value, value, f"{low:.4f}", "to", f"{high:.4f}"]
    assert "asking" in process.stdout
    done(call(
        "classify", "--model", work / "out", "--input", work / "moods-val.csv",
        "--output", work / "labelled.jsonl",
    ))  # fmt: skip
    rows = [json.loads(row) for row in (work / "labelled.jsonl").read_text().splitlines()]
    for row in rows:
        thresholds = dict(zip(CLASSES, results["thresholds"], strict=True))
        likely = [name for name in CLASSES if row[f"probability_{name}"] > thresholds[name]]
        assert row["labels"] == likely
        assert "neuron" not in row
        assert "label" not in row
    right = [r["labels"] == [n for n in CLASSES if r[n] == "1"] for r in rows]
    assert sum(right) / 30 == pytest.approx(results["val"]["subset_accuracy"])


def test_a_part_of_train_is_held_out(work, call):
    done(call(
        "finetune", "--train", work / "moods-train.csv", "--label-keys", *sorted(CLASSES),
        "--output", work / "out", "--epochs", 1, "--freeze", "--val-share", 0.25,
    ))  # fmt: skip
    results = json.loads((work / "out/results.json").read_text())
    assert results["examples"] == {"train": 45, "val": 15}
    assert results["classes"] == sorted(CLASSES)
    assert "test" not in results


def test_a_transfer_keeps_the_heads_and_shows_how_to_name_its_classifier(work, call, caplog):
    train, val = ("--train", work / "train.csv"), ("--val", work / "val.csv")
    done(call("finetune", *train, *val, "--output", work / "tuned", "--epochs", 1, "--freeze"))
    options = (*train, *val, "--test", work / "val.csv", "--model")
    for _ in range(2):  # it may replace its own
        printed = done(
            call("transfer", *options, work / "m", "--output", work / "m/transfer")
        ).stdout
        assert "--classifier" not in printed + caplog.text
    options = (*options, work / "tuned", "--output")
    printed = done(call("transfer", *options, work / "tuned/transfer")).stdout
    assert f" --classifier {work}/tuned/transfer --text" in printed
    assert f"use {work}/tuned/model/classifier; name the new one with" in caplog.text
    for output in (work / "tuned", work / "tuned/model"):
        assert_refused(
            call("transfer", *options, output),
            f"{work}/tuned/model/classifier: is not a classifier of transfer.py; name another",
        )


REFUSALS = [  # tests/data_utils/test_labelled.py has what is wrong with labels and columns
    ("text,label\nhi,a\n ,b\n", [], "line 3: no text under 'text'"),
    (
        "text,joy,fear\nhi,1,0\n",
        ["--label-keys", "joy", "fear", "--label-key", "joy"],
        "are both given; give only one",
    ),
    ("text,label\nhi,a\nho,b\n", ["--epochs", "0"], "--epochs is 0; it must be at least 1"),
    ("text,label\nhi,a\nho,b\n", ["--val-share", "2"], "--val-share is 2.0; it must be above zero"),
    ("text,label\nhi,a\nho,b\n", ["--model", "nowhere"], "model 'nowhere'"),
]


@pytest.mark.parametrize(("content", "arguments", "said"), REFUSALS)
def test_refusals(work, call, content, arguments, said):
    (work / "bad.csv").write_text(content)
    process = call(
        "finetune", "--train", work / "bad.csv", "--val", work / "bad.csv", "--output",
        work / "out", *arguments,
    )  # fmt: skip
    assert_refused(process, said)
    assert not (work / "out").exists()


def test_the_quick_checks_come_first(work, call):
    absent = ["--train", work / "absent.csv", "--model", "nowhere"]
    (work / "taken").mkdir()
    (work / "taken/file").touch()
    assert_refused(call("finetune", *absent, "--output", work / "taken"), "taken: exists already")
    assert_refused(call("finetune", *absent, "--output", work / "out"), "absent.csv")
    rest = ["--val", work / "val.csv", "--test", work / "val.csv", "--output", work / "out"]
    for script in ("transfer", "neuron"):
        assert_refused(call(script, *absent, *rest), "absent.csv")
