"""Every --help is there and ends with its examples; every example runs, on small data."""

import ast
import gzip
import re
import shlex
import shutil
from functools import partial

import pytest
import torch

from data_utils.synthetic import synthetic_reviews
from experiments.scaling.calibration import calibrate
from tests.house.pages import COMMANDS
from tests.support.checkouts import make_checkout, shortened
from tests.support.runs import ROOT, done, run_shell
from tests.transfer.published.layouts import draw, nvidia_language_model

# In an order in which each finds what it needs.
SCRIPTS = [
    "scripts/synthesize_reviews.py", "scripts/prepare_corpus.py",
    "main.py", "scripts/transfer.py", "scripts/finetune.py", "scripts/neuron.py",
    "scripts/evaluate.py", "scripts/featurize.py", "scripts/classify.py", "scripts/generate.py",
    "scripts/heatmap.py", "scripts/demo.py",
    "scripts/import_weights.py", "scripts/benchmark.py", "scripts/plan.py",
]  # fmt: skip
NETWORK = ["scripts/download_data.py"]
# Run by the tests of the README and of the launch; by a slow one of busy.py.
ELSEWHERE = ("torch.distributed.run", "benchmark.py busy", "import_weights.py unirep")
# A script whose examples make nothing for later ones: those on the pages are run there.
LAST = "scripts/benchmark.py"


def examples_of(script):
    """Return the commands in the last paragraph of a script's docstring."""
    text = ast.get_docstring(ast.parse((ROOT / script).read_text())).rpartition("\n\n")[2]
    return [line.split("  #")[0].strip() for line in text.replace("\\\n", " ").splitlines()]


def prepared(script, folder):
    """Write the files that the examples of a script need."""
    if script == "scripts/prepare_corpus.py":
        (folder / "reviews.jsonl.gz").write_bytes(
            gzip.compress((folder / "reviews.jsonl").read_bytes())
        )
    elif script == "main.py":
        shutil.copytree(folder / "data/reviews", folder / "data/amazon")
    elif script == "scripts/finetune.py":
        rows = [(r.label, r.text) for r in synthetic_reviews(40, seed=2)]
        cells = [f'"{text}",{label},{1 - label},{n % 2}' for n, (label, text) in enumerate(rows)]
        (folder / "emotions.csv").write_text("\n".join(["text,joy,anger,fear", *cells]) + "\n")
    elif script == "scripts/classify.py":
        shutil.copytree(folder / "runs/tour/transfer", folder / "stars")
        (folder / "texts.jsonl").write_text('{"text": "good"}\n{"text": "bad"}\n')
    elif script == "scripts/import_weights.py":
        torch.save(nvidia_language_model(draw(), "ifuo", tokens=257), folder / "mlstm.pt")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_example_runs(tmp_path, monkeypatch, run_here):
    folder = make_checkout(tmp_path)
    monkeypatch.chdir(folder)
    quick = partial(calibrate, lanes=4, sizes=(32, 64))
    monkeypatch.setattr("experiments.scaling.calibration.calibrate", quick)
    for script in SCRIPTS:
        prepared(script, folder)
        for command in examples_of(script):
            if any(word in command for word in ELSEWHERE) or (
                script == LAST and command in COMMANDS
            ):
                continue
            if script == "main.py" or "|" in command:
                process = run_shell(shortened(command), cwd=folder)
                assert process.returncode == 0, f"{command}\n{process.stdout}{process.stderr}"
            else:
                process = run_here(*shlex.split(shortened(command))[1:])
                assert process.returncode == 0, f"{command}\n{process.stdout}{process.stderr}"
    for name in (
        "labelled.csv",
        "unit7.npy",
        "heatmap.html",
        "runs/tour/neuron/neuron.json",
        "models/openai/model.safetensors",
    ):
        assert (folder / name).stat().st_size > 0


def test_no_script_is_forgotten():
    scripts = {f"scripts/{path.name}" for path in (ROOT / "scripts").glob("*.py")}
    assert scripts | {"main.py"} == {*SCRIPTS, *NETWORK, "scripts/command.py"}


@pytest.mark.parametrize("script", [*SCRIPTS, *NETWORK])
def test_help_describes_defaults_and_ends_with_examples(script, run_here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    process = done(run_here(script, "--help"))
    assert "(default: None)" not in process.stdout
    assert "\t" not in process.stdout
    words = re.sub(r"[\s│]+", " ", process.stdout)
    assert not re.search(r"Default: (?:(?! --).)*\(default: ", words)  # two defaults
    assert not re.search(r"--\S+ \S+ \(default: ", words)  # nothing but a default
    examples = process.stdout.partition("\nexamples:\n")[2].replace("\\\n", " ").splitlines()
    shown = [" ".join(line.split("  #")[0].split()) for line in examples]
    expected = [" ".join(line.split()) for line in examples_of(script)]
    assert shown == expected
    assert expected
