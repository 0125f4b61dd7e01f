"""Every command in the README runs: on small data, shortened by options that go last."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from data_utils.synthetic import synthetic_reviews
from tests.runs import ROOT, run_shell

README = (ROOT / "README.md").read_text()
SHORT_RUN = (
    " --model.hidden_size 8 --data.lanes 4 --data.window 16 --train.steps 2"
    " --train.device cpu --train.precision fp32 --evaluate.lanes 8"
)
# What a first start leaves to the ranks; a test has two of them and few reviews.
SHORT_LAUNCH = SHORT_RUN.replace("--data.lanes 4", "--data.lanes_per_rank 2")
SHORT_BENCHMARK = " --hidden-size 32 --batch 4 --window 4 --rounds 1 --device cpu"
SLOW = ("scripts/quickstart.sh", "scripts/test.sh", "run.sh")  # run by CI and by hand
ELSEWHERE = ("sbatch", "pip install", "git clone", "download_data")  # a cluster, a network


def readme_commands():
    """The lines of the README's bash blocks, continued lines joined, comments dropped."""
    for block in re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.split("  #")[0].strip()
            if command and not command.startswith("#"):
                yield command


COMMANDS = list(dict.fromkeys(readme_commands()))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder that looks like a checkout with the user's files beside it."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in (
        "main.py",
        "scripts",
        "configs",
        "model",
        "data_utils",
        "training",
        "transfer",
        "experiments",
    ):
        (folder / name).symlink_to(ROOT / name)
    for name, count in (("train", 120), ("val", 40), ("test", 40), ("texts", 5)):
        lines = ["label,text"]
        lines += [f'{r.label},"{r.text}"' for r in synthetic_reviews(count, seed=count)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    rows = (json.dumps({"reviewText": r.text}) for r in synthetic_reviews(200, seed=1))
    (folder / "reviews.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def shortened(command):
    """The command with a small job for its last options."""
    if "--resume" in command:
        return command + " --train.steps 3"
    if "torch.distributed.run" in command:
        command = re.sub(r"--nproc-per-node \d+", "--nproc-per-node 2", command)
        return (
            command + SHORT_LAUNCH
            if "lanes_per_rank" in config_of(command)
            else (command + SHORT_RUN)
        )
    if "benchmark.py" in command:
        return command + SHORT_BENCHMARK
    return command + SHORT_RUN if "main.py" in command else command


def config_of(command):
    match = re.search(r"--config (\S+)", command)
    return (ROOT / match[1]).read_text() if match else ""


@pytest.mark.timeout(600)
def test_every_command_runs_in_order(checkout):
    ran = 0
    for command in COMMANDS:
        if any(word in command for word in (*SLOW, *ELSEWHERE)):
            continue
        process = run_shell(shortened(command), cwd=checkout)
        assert process.returncode == 0, f"{command}\n{process.stdout}{process.stderr}"
        ran += 1
    assert ran >= 8
    the_python_example_runs(checkout)  # on the model just trained


def the_python_example_runs(checkout):
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    code = block.replace("from mlstm_sentiment import", "from model import")
    process = run_shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}", cwd=checkout)
    assert process.returncode == 0, process.stderr


def test_every_path_in_the_readme_exists():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
    for word in re.findall(r"(?:configs|scripts|experiments)/[\w./-]+\w", README):
        if "*" not in word:
            assert (ROOT / word).exists(), word


def test_slow_commands_are_the_two_of_the_readme():
    assert "bash scripts/quickstart.sh" in COMMANDS
    assert "bash scripts/test.sh" in COMMANDS
    for name in ("quickstart.sh", "test.sh", "install.sh"):
        assert Path(ROOT / "scripts" / name).read_text().startswith("#!/usr/bin/env bash\n")
