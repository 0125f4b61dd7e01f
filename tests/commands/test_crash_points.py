"""A command that is killed at any of its file operations ends well when it is repeated."""

import pytest

from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.support.crash_points import faults
from tests.support.labelled import NAMES, write_labelled
from tests.support.runs import SMALL_RUN

SETS = [word for name in NAMES for word in (f"--{name}", f"INPUT/{name}.csv")]
PAIRS = [word for key, value in SMALL_RUN.items() for word in (f"--{key}", str(value))]
OF_A_RUN = ["--train.steps", "12", "--if-exists", "resume"]
COMMANDS = {
    "classify": (
        ["scripts/classify.py", "--model", "default_small", "--input", "INPUT/train.csv"],
        ["--output", "{}/out.csv", "--report", "{}/report.html"],
    ),
    "featurize": (
        ["scripts/featurize.py", "--model", "INPUT/m", "--input", "INPUT/train.csv"],
        ["--output", "{}/out.npy"],
    ),
    "prepare_corpus": (
        ["scripts/prepare_corpus.py", "INPUT/train.csv", "INPUT/val.csv", "--split", "8,1,1"],
        ["--output", "{}/corpus", "--workers", "1"],
    ),
    "subwords": (
        ["scripts/prepare_corpus.py", "INPUT/train.csv", "--split", "8,1,1", "--tokenizer", "bpe"],
        ["--vocabulary-size", "300", "--output", "{}/corpus", "--workers", "1"],
    ),
    "transfer": (
        ["scripts/transfer.py", "--model", "INPUT/m", *SETS],
        ["--output", "{}/out"],
    ),
    "neuron": (
        ["scripts/neuron.py", "--model", "INPUT/m", *SETS],
        ["--output", "{}/out", "--draws", "1", "--untrained", "1", "--labels", "10"],
    ),
    "finetune": (
        ["scripts/finetune.py", "--model", "INPUT/m", *SETS, "--resume"],
        ["--output", "{}/out", "--epochs", "2"],
    ),
    "main": (["main.py", *PAIRS], ["--run-dir", "{}/run", *OF_A_RUN]),
}
DEFAULT = ("classify", "prepare_corpus")
SAMPLED = ("finetune", "main")
EVERY = 10**6


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A model, and labelled texts."""
    folder = tmp_path_factory.mktemp("inputs")
    model = build_model(ModelConfig(hidden_size=12, embedding_size=6), seed=3)
    save_model(folder / "m", model, text_profile("openai"), {})
    write_labelled(folder)
    return folder


def check(name, inputs, work, most, ranks=1):
    command = [word.replace("INPUT", str(inputs)) for part in COMMANDS[name] for word in part]
    count, wrong = faults(command, work, most, ranks)
    print(f"{name}, {ranks} ranks: {count} points, {len(wrong)} bad")
    assert count
    assert not wrong, "\n".join(wrong)


def test_a_point_that_a_run_does_not_reach_is_bad(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "folder = Path(sys.argv[1])\n"
        "for _ in range(2 if folder.name in ('whole', 'again') else 1):\n"
        "    (folder / 'written').write_text('all')\n"
    )
    count, (wrong,) = faults([script, "{}"], tmp_path / "work", most=EVERY)
    assert count == 2
    assert wrong.startswith("2 (open ")
    assert "was not killed" in wrong


@pytest.mark.parametrize("name", DEFAULT)
def test_a_kill_costs_nothing(name, inputs, tmp_path):
    check(name, inputs, tmp_path, most=3)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in SAMPLED])
def test_a_kill_at_any_operation_costs_nothing(name, inputs, tmp_path):
    check(name, inputs, tmp_path, most=EVERY)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(("name", "ranks"), [("finetune", 1), ("main", 1), ("main", 2)])
def test_a_kill_at_any_of_60_operations_costs_nothing(name, ranks, inputs, tmp_path):
    check(name, inputs, tmp_path, most=60, ranks=ranks)
