"""What schedulers start: the Slurm script between stand-ins for its commands, the TrainJob."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkouts import make_checkout
from tests.support.runs import ROOT, free_port, rows_of, small_run, wait_for

BATCH = ROOT / "scripts/slurm/train.sbatch"
TRAINJOB = (ROOT / "scripts/kubernetes/trainjob.yaml").read_text()
JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "node[0-1]",
    "SLURM_NNODES": "1",
    "SLURM_NODEID": "0",
    "SLURM_GPUS_ON_NODE": "2",
    "SLURM_CPUS_PER_TASK": "1",
}
SCONTROL = 'echo "$@" >> scontrol.log; if [ "$1" = show ]; then echo 127.0.0.1; fi'
# What follows srun's own options, in its place, as signals to srun go to its tasks.
SRUN = 'while [ "$1" != bash ]; do shift; done; exec "$@"'
SAVING = (
    'echo "$@" > srun.log; trap "echo saved >> srun.log; exit 1" TERM; while :; do sleep 0.1; done'
)


@pytest.fixture
def cluster(tmp_path):
    """A checkout, and a function that starts the batch script with a given srun."""
    folder = make_checkout(tmp_path)
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "bin").mkdir()

    def submit(srun, *arguments, scontrol=SCONTROL):
        for name, script in (("srun", srun), ("scontrol", scontrol)):
            (folder / "bin" / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
            (folder / "bin" / name).chmod(0o755)
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        return subprocess.Popen(
            ["bash", BATCH, *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", **JOB, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    return folder, submit


@pytest.mark.parametrize(("number", "requeued"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_a_job_near_its_time_limit_saves_and_requeues_itself(cluster, number, requeued):
    folder, submit = cluster
    process = submit(SAVING, "--run-dir", "runs/mine")
    wait_for(folder / "srun.log", lambda text: text.endswith("--run-dir runs/mine\n"))
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1, output
    said = (folder / "srun.log").read_text()
    assert said.count("saved") == 1
    assert "--nnodes 1:1 --nproc-per-node 2 --rdzv-id 7-0 --rdzv-endpoint 127.0.0.1:20007" in said
    assert "--log-dir slurm-7 --tee 3 --role rank main.py" in said  # the output of each rank
    asked = (folder / "scontrol.log").read_text().splitlines()
    assert asked == ["show hostnames node[0-1]", *(["requeue 7"] if requeued else [])]


def test_a_signal_before_the_step_runs_still_ends_the_job(cluster):
    folder, submit = cluster
    process = submit(SAVING, scontrol=f"{SCONTROL}; touch asked; sleep 0.5")
    wait_for(folder / "asked", lambda _: True)
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=30)
    assert process.returncode != 0, output
    assert (folder / "scontrol.log").read_text().splitlines()[1:] == ["requeue 7"]


@pytest.mark.slow
def test_a_requeued_job_resumes_where_it_stopped(cluster):
    folder, submit = cluster
    settings = {"checkpoint.every_steps": 1000, "train.device": "cpu"}
    command = small_run(folder / "run", 400, **settings)[1:]
    command[command.index("tests/fixtures/v1/corpus")] = ROOT / "tests/fixtures/v1/corpus"
    process = submit(SRUN, *command)
    wait_for(folder / "run" / "metrics.jsonl", lambda text: text.count("\n") >= 2, seconds=120)
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=120)
    assert "stopped and saved at step" in output
    saved = int(re.findall(r"\[rank0\]:.*saved at step (\d+)", output)[0])
    (own,) = folder.glob("slurm-7/*/attempt_0/0/stdout.log")
    assert f"stopped and saved at step {saved}" in own.read_text()
    assert "requeue 7" in (folder / "scontrol.log").read_text()
    process = submit(SRUN, *command)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    assert f"from step {saved}\n" in output
    assert rows_of(folder / "run")[-1]["step"] == 400


def run_elastic(*words, timeout=60, **environment):
    """Run scripts/elastic.sh with this interpreter."""
    return subprocess.run(
        ["bash", ROOT / "scripts/elastic.sh", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


ONE_PROCESS = ("--standalone", "--nproc-per-node", "1")


def test_a_standalone_job_hosts_its_own_store_on_any_node(tmp_path):
    """Every node of an allocation may have a run of its own."""
    script = tmp_path / "hello.py"
    script.write_text("import os; print('rank', os.environ['RANK'])\n")
    done = run_elastic(*ONE_PROCESS, script, SLURM_NODEID="1")
    assert done.returncode == 0, done.stderr
    assert "rank 0" in done.stdout


def test_what_a_rank_says_before_it_ends_the_launcher_stays_in_view(tmp_path):
    """A rank whose input is refused is an example: the launcher would only start it again."""
    script = tmp_path / "refused.py"
    script.write_text(
        "import os, signal, sys, time; print('error: bad input', file=sys.stderr, flush=True); "
        "os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)\n"
    )
    done = run_elastic(*ONE_PROCESS, script)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    said = done.stderr.splitlines()
    assert re.fullmatch(r"launcher: Process \d+ got signal: 15", said[-1])
    assert "error: bad input" in said[-6:]


# In place of torch: two GPUs, one of which may be broken, and a launcher that only reports.
TORCH = """
import os
import sys
from types import SimpleNamespace

cuda = SimpleNamespace(device_count=lambda: 2)


class Matrix:
    def __init__(self, value):
        self.value = value

    def __matmul__(self, other):
        return Matrix(1024 * self.value)

    def __eq__(self, number):
        return SimpleNamespace(all=lambda: self.value == number)


def ones(*shape, device):
    broken, fault = os.environ.get("BROKEN", "none fine").split()
    if device == broken and fault == "fails":
        raise RuntimeError("CUDA error: uncorrectable ECC error\\nmore")
    return Matrix(1.01 if device == broken else 1)
"""
LAUNCHER = "def main():\n    print('joined')\n"
SIGNALS = "class SignalException(Exception):\n    pass\n"


@pytest.fixture
def join(tmp_path):
    """A function that runs scripts/elastic.sh on a node with a stand-in for torch."""
    for name, text in (
        ("torch/__init__.py", TORCH),
        ("torch/distributed/run.py", LAUNCHER),
        ("torch/distributed/elastic/multiprocessing/api.py", SIGNALS),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def run(words, **environment):
        added = {"SLURM_GPUS_ON_NODE": "2", "PYTHONPATH": str(tmp_path)}
        return run_elastic(*words.split(), **added, **environment)

    return run


@pytest.mark.parametrize(
    "words",
    [
        "--nproc-per-node 2 main.py",
        "--nnodes 1:4 --nproc_per_node=1 main.py",
        "--nproc-per-node gpu main.py",
        "--nproc-per-node 8 main.py --train.device cpu",
    ],
)
def test_a_node_whose_gpus_work_joins(join, words):
    done = join(words)
    assert (done.returncode, done.stdout) == (0, "joined\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "environment", "fault"),
    [
        ("--nproc-per-node 8 main.py", {}, "2 GPUs for --nproc-per-node 8; see nvidia-smi"),
        ("main.py", {"PET_NPROC_PER_NODE": "3"}, "2 GPUs for --nproc-per-node 3; see nvidia-smi"),
        (
            "--nproc-per-node 2 main.py",
            {"BROKEN": "cuda:1 fails"},
            "GPU 1 does not work (CUDA error: uncorrectable ECC error)",
        ),
        (
            "--nproc-per-node 2 main.py",
            {"BROKEN": "cuda:0 errs"},
            "GPU 0 multiplies matrices incorrectly",
        ),
    ],
)
def test_a_node_with_too_few_or_broken_gpus_does_not_join(join, words, environment, fault):
    done = join(words, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: node {socket.gethostname()}: {fault}\n"


def words_of(key):
    """The list of strings that a key of the TrainJob holds, in either of YAML's two ways."""
    inline = re.search(rf"^    {key}: \[(.*)\]$", TRAINJOB, re.MULTILINE)
    if inline:
        return inline[1].split(", ")
    block = re.search(rf"^    {key}:\n((?:      - .*\n)+)", TRAINJOB, re.MULTILINE)
    return [line.removeprefix("      - ").split(" #")[0] for line in block[1].splitlines()]


def test_the_trainjob_is_what_it_should_be():
    runtime, job = TRAINJOB.split("\n---\n")
    for part, kind in ((runtime, "TrainingRuntime"), (job, "TrainJob")):
        assert f"\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: {kind}\n" in f"\n{part}"
        for line in part.splitlines():
            assert "\t" not in line
            assert (len(line) - len(line.lstrip(" "))) % 2 == 0, line
            assert re.match(r" *(- )?(- \S|\S+:( |$)|--|#|$)", line), line
    assert "\n  name: mlstm\n" in runtime
    assert "\n    name: mlstm\n" in job  # runtimeRef
    grace = int(re.search(r"terminationGracePeriodSeconds: (\d+)", runtime)[1])
    waits = int(
        re.search(r"PET_SHUTDOWN_TIMEOUT:-(\d+)", (ROOT / "scripts/elastic.sh").read_text())[1]
    )
    assert grace > waits
    script, arguments = words_of("command")[1], words_of("args")
    assert (ROOT / script).is_file()
    (config,) = (word.partition("=")[2] for word in arguments if word.startswith("--config="))
    assert (ROOT / config).is_file()
    # Reserved for the controller; the arguments ask for the address that it gives.
    assert not re.search(r"name: PET_", TRAINJOB)
    assert "--rdzv-endpoint=$(PET_MASTER_ADDR):$(PET_MASTER_PORT)" in arguments


@pytest.mark.slow
def test_the_trainjobs_command_trains(tmp_path):
    """One pod of two, expanded as the kubelet does it, with fewer processes and a small model."""
    words = words_of("args")
    own = " ".join(words[: words.index("main.py")]).replace("node=8", "node=2")
    for name, value in (("ADDR", "localhost"), ("PORT", str(free_port()))):
        own = own.replace(f"$(PET_MASTER_{name})", value)
    assert words_of("command") == ["bash", "scripts/elastic.sh"]
    pod = {"JOB_COMPLETION_INDEX": "0", "PET_NNODES": "2"}
    process = run_elastic(*own.split(), *small_run(tmp_path / "run", 20), timeout=240, **pod)
    assert process.returncode == 0, process.stderr
    assert rows_of(Path(tmp_path / "run"))[-1]["step"] == 20
