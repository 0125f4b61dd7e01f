"""Nothing of the user's, and nothing that a command reads, is written over: by name, link or inode.

Every case ends with one line, exit code 2, and all files as they were.
"""

import os
import shutil
import subprocess
import sys

import pytest

from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.support.labelled import NAMES, write_labelled
from tests.support.runs import ROOT, assert_refused, done, run, small_run

OURS = (
    *("model/config.json", "metrics.jsonl", "config.toml"),
    "checkpoint/step-00000012/lanes.safetensors",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, a model, labelled texts, and a letter of the user's."""
    work = tmp_path_factory.mktemp("made")
    done(run(*small_run(work / "run", 12)))
    model = build_model(ModelConfig(hidden_size=12, embedding_size=6), seed=3)
    save_model(work / "m", model, text_profile("openai"), {})
    write_labelled(work)
    (work / "letter").write_text("dear\n")
    return work


@pytest.fixture
def work(made, tmp_path):
    return shutil.copytree(made, tmp_path / "work", symlinks=True)


def state_of(work):
    """Return the content of every file, and the target of every link."""
    paths = (path for path in work.rglob("*") if path.is_symlink() or path.is_file())
    return {path: os.readlink(path) if path.is_symlink() else path.read_bytes() for path in paths}


def link(name, target="letter"):
    def prepare(work):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).symlink_to(work / target)

    return prepare


def hard_link(name, target):
    return lambda work: os.link(work / target, work / name)


def own(name):
    def prepare(work):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("mine\n")

    return prepare


def nothing(work):
    pass


SETS = [word for name in NAMES for word in (f"--{name}", f"{{}}/{name}.csv")]
RESUME = ["main.py", "--resume", "{}/run", "--train.steps", "9"]
TRANSFER = ["scripts/transfer.py", "--model", "{}/m", *SETS, "--output", "{}/out"]
NEURON = ["scripts/neuron.py", "--model", "{}/m", *SETS, "--output", "{}/out", "--draws", "1"]
FINETUNE = ["scripts/finetune.py", "--model", "{}/m", *SETS[:4], "--output", "{}/out", "--freeze"]
TEXT = ["--model", "{}/run", "--text", "good"]
CLASSIFY = ["scripts/classify.py", "--model", "default_small", "--input", "{}/train.csv"]


def to(script, output, *words):
    return [f"scripts/{script}.py", *words, "--output", f"{{}}/{output}"]


REFUSED = {
    "a link for the holder, resumed": (link("run/.holder.json"), RESUME),
    "a link for the lock, resumed": (link("run/.lock"), RESUME),
    "a tokenizer in a model of bytes": (own("run/model/tokenizer.model"), RESUME),
    "a link for the holder, fine-tuning": (link("out/.holder.json"), FINETUNE),
    **{
        f"{kind.__name__} {name}, {command[0]}": (kind(f"out/{name}"), command)
        for kind in (own, link)
        for command, names in {
            tuple(TRANSFER): ("results.json", "classifier/a.json"),
            tuple(NEURON): ("neuron.json", ".lock"),
        }.items()
        for name in names
        if (kind, name) != (own, ".lock")
    },
    "a linked folder of features": (link("out/features", "m"), TRANSFER),
    "a linked folder of figures": (link("out/figures", "m"), NEURON),
    **{
        f"{name} of the run that is read": (nothing, to("demo", f"run/{name}", "--model", "{}/run"))
        for name in OURS
    },
    "another run": (nothing, to("demo", f"run/{OURS[-1]}", "--model", "{}/m")),
    "evaluate": (
        nothing,
        to("evaluate", "run/model/config.json", "--model", "{}/run", "--data", "{}/train.csv"),
    ),
    "heatmap": (nothing, to("heatmap", "run/model/config.json", *TEXT)),
    "the log": (nothing, [*CLASSIFY, "--output", "{}/run/metrics.jsonl"]),
    "the texts": (nothing, to("demo", "train.csv", "--model", "{}/m")),
    "the input": (nothing, [*CLASSIFY, "--output", "{}/train.csv"]),
    "the input by another name": (
        hard_link("other.csv", "train.csv"),
        [*CLASSIFY, "--output", "{}/other.csv"],
    ),
    "the input as a work file": (
        lambda work: (work / "train.csv").rename(work / "out.csv.partial"),
        [*CLASSIFY[:-1], "{}/out.csv.partial", "--output", "{}/out.csv"],
    ),
    "a link as a work file": (link("out.csv.partial"), [*CLASSIFY, "--output", "{}/out.csv"]),
    "a link as a journal": (link("out.csv.partial.json"), [*CLASSIFY, "--output", "{}/out.csv"]),
    "a link as the record": (link(".mlstm_sentiment.jsonl"), to("demo", "new.html", *TEXT[:2])),
    "a hard link as the record": (
        hard_link(".mlstm_sentiment.jsonl", "letter"),
        to("demo", "new.html", *TEXT[:2]),
    ),
    "a folder as the record": (
        lambda work: (work / ".mlstm_sentiment.jsonl").mkdir(),
        to("demo", "new.html", *TEXT[:2]),
    ),
    "a pipe without a writer as the record": (
        lambda work: os.mkfifo(work / ".mlstm_sentiment.jsonl"),
        to("demo", "new.html", *TEXT[:2]),
    ),
    "a link as the output": (link("a.html"), to("demo", "a.html", *TEXT[:2])),
    "a broken link as the output": (link("a.html", "none"), to("demo", "a.html", *TEXT[:2])),
    "a page of the user's": (own("a.html"), to("heatmap", "a.html", *TEXT)),
    "a report of the user's": (own("a.html"), [*CLASSIFY, "--report", "{}/a.html"]),
    "features of the user's": (
        own("a.npy"),
        to("featurize", "a.npy", "--model", "{}/m", "--input", "{}/train.csv"),
    ),
    "a corpus": (own("out/meta.json"), to("prepare_corpus", "out", "{}/train.csv")),
    "a linked work folder": (link("out.partial", "m"), to("prepare_corpus", "out", "{}/train.csv")),
}


@pytest.mark.parametrize(("prepare", "command"), REFUSED.values(), ids=REFUSED.keys())
def test_is_refused_and_nothing_is_changed(work, prepare, command, run_here):
    prepare(work)
    before = state_of(work)
    process = run_here(*(word.replace("{}", str(work)) for word in command))
    after = state_of(work)
    assert {path: after.get(path) for path in before} == before
    assert_refused(process)


@pytest.mark.parametrize(("source", "opened"), [("train.csv", "letter"), ("-", "train.csv")])
def test_standard_output_is_no_input(work, source, opened):
    """As by the shell's >>."""
    table = work / "train.csv"
    before = table.read_bytes()
    words = [*CLASSIFY[:-1], source.replace("t", f"{work}/t", 1)]
    with open(work / opened) as stdin, open(table, "a") as stdout:
        process = subprocess.run(
            [sys.executable, *words],
            stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
    assert process.returncode == 2
    assert "standard output is" in process.stderr
    assert table.read_bytes() == before


def test_what_a_command_wrote_it_replaces_and_another_does_not(work, run_here):
    classify = ["scripts/classify.py", "--model", "default_small", "--text", "good", "--output"]
    for _ in range(2):
        done(run_here(*classify, work / "a.csv"))
    assert_refused(
        run_here("scripts/demo.py", "--model", work / "m", "--output", work / "a.csv"),
        "a.csv: contains rows, not a demo page",
    )
    (work / "a.csv").write_text((work / "a.csv").read_text().replace("positive", "negative"))
    assert_refused(
        run_here(*classify, work / "a.csv"), "a.csv: was changed after this project wrote it"
    )
    (work / "empty.csv").touch()
    done(run_here(*classify, work / "empty.csv"))


def test_a_result_of_one_command_is_not_replaced_by_that_of_another(work, run_here):
    cluster = ROOT / "configs/clusters/h200.toml"
    evaluate = ["scripts/evaluate.py", "--model", work / "m", "--data", work / "train.csv"]
    plan = ["scripts/plan.py", "--model", "512", "--cluster", cluster, "--characters", "1e9"]
    commands = {"an evaluation": evaluate, "a plan": plan}
    for kind, command in commands.items():
        for _ in range(2):
            done(run_here(*command, "--output", work / f"{kind}.json"))
    for kind, command in commands.items():
        for other in commands.keys() - {kind}:
            assert_refused(
                run_here(*command, "--output", work / f"{other}.json"),
                f"{other}.json: contains {other}, not {kind}",
            )


def test_a_name_reaches_the_terminal_with_stand_ins_for_what_it_would_obey(work):
    name = "\x1b[31m.csv"
    (work / "train.csv").rename(work / name)
    words = ["scripts/classify.py", "--model", "default_small", "--input", work / name]
    seen = done(run(*words, "--output", work / "\x1b[2J.jsonl"))
    seen = seen.stderr + run(*words, "--output", work / name).stderr
    seen += run("scripts/demo.py", "--model", work / "m", "--output", work / "\x9b.html").stdout
    assert "\x1b" not in seen
    assert "\x9b" not in seen
    assert "␛[31m.csv: this is an input" in seen
    assert "�.html: " in seen
