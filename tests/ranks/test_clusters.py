"""What schedulers start: the Slurm script between stand-ins for its commands, the TrainJob."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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
SCONTROL = """
echo "$@" >> scontrol.log
case $* in
    "show hostnames "*) echo node0 ;;
    "show node "*) echo "NodeName=node0 Arch=x86_64 NodeAddr=127.0.0.1 Port=6818" ;;
    "show job "*) echo "JobId=7 JobState=${STATE:-RUNNING} Reason=None" ;;
    "requeue "*) [ -z "${FORBIDDEN:-}" ] || { echo "$FORBIDDEN" >&2; exit 1; } ;;
esac
"""
# A signal to srun kills the step at once, as the real one does. Only scancel reaches the launchers.
SRUN = """
trap 'echo killed >> srun.log; exit 143' TERM
echo "${@//$'\\n'/ }" >> srun.log
for _ in $(seq 600); do
    if [ -e signalled ]; then echo saved >> srun.log; exit 75; fi
    if [ "${TRAINED:-}" ]; then touch "$MLSTM_TRAINED"; exit "$TRAINED"; fi
    [ -z "${ENDS:-}" ] || exit "$ENDS"
    sleep 0.1
done
"""
SCANCEL = 'echo "$@" >> scancel.log; touch signalled'
SLEEP = 'exec "$(PATH=/usr/bin:/bin command -v sleep)" 0.05'
STANDINS = {"srun": SRUN, "scontrol": SCONTROL, "scancel": SCANCEL, "sleep": SLEEP}


ARRAY = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}
UNABLE = "error: Slurm does not requeue job 7 (disabled): submit it again to continue\n"


@pytest.fixture
def submit(tmp_path):
    """A function that starts the batch script between stand-ins for Slurm's commands.

    What Slurm itself does with it is seen by scripts/check_cluster.sh.
    """
    (tmp_path / "bin").mkdir()
    for name, script in STANDINS.items():
        (tmp_path / "bin" / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def start(*arguments, **environment):
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        return subprocess.Popen(
            ["bash", BATCH, *arguments],
            cwd=tmp_path,
            env={**os.environ, **JOB, "PATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    return start


@pytest.mark.parametrize(
    ("number", "environment", "requeued", "said"),
    [
        (signal.SIGUSR1, {}, "requeue 7", ""),
        (signal.SIGTERM, {}, "requeue 7", ""),
        (signal.SIGUSR1, ARRAY, "requeue 5_3", ""),
        (signal.SIGUSR1, {"STATE": "CANCELLED"}, None, ""),
        (signal.SIGTERM, {"FORBIDDEN": "disabled"}, "requeue 7", UNABLE),
    ],
)
def test_a_signalled_job_saves_and_requeues_itself_alone(
    submit, tmp_path, number, environment, requeued, said
):
    process = submit("--run-dir", "runs/mine", **environment)
    wait_for(tmp_path / "srun.log", lambda text: text.endswith("--run-dir runs/mine\n"))
    process.send_signal(number)
    process.send_signal(number)  # twice, as some tools do
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (75, said)
    step = requeued.split()[1] if requeued else "7"
    assert (tmp_path / "scancel.log").read_text() == f"--quiet --signal=TERM {step}.0\n"
    started, ended = (tmp_path / "srun.log").read_text().splitlines()
    assert ended == "saved"
    assert "--nnodes 1:1 --nproc-per-node 2 --rdzv-id 7-0 --rdzv-endpoint 127.0.0.1:200" in started
    assert "--log-dir slurm-7 --tee 3 --role rank main.py" in started  # the output of each rank
    asked = [each for each in (tmp_path / "scontrol.log").read_text().splitlines() if "re" in each]
    assert asked == ([requeued] if requeued else [])


@pytest.mark.parametrize(
    ("environment", "code", "requeued"),
    [
        ({"ENDS": "75"}, 75, True),  # someone signalled the launchers
        *(({"ENDS": str(code)}, code, False) for code in (0, 2)),
        ({"TRAINED": "0"}, 0, False),
        ({"TRAINED": "137"}, 0, False),  # with the task of a lost node
    ],
)
def test_the_exit_code_is_that_of_the_training(submit, tmp_path, environment, code, requeued):
    process = submit("--run-dir", "runs/mine", **environment)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, "")
    assert ("requeue 7" in (tmp_path / "scontrol.log").read_text()) == requeued


def run_elastic(*words, **environment):
    """Run scripts/elastic.sh with this interpreter."""
    return subprocess.run(
        ["bash", ROOT / "scripts/elastic.sh", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


ONE_PROCESS = ("--standalone", "--nproc-per-node", "1")


def test_a_signal_to_the_launcher_reaches_the_ranks(tmp_path):
    """And what a rank says stays in view.

    A standalone job hosts its own store on any node: each of an allocation may have a run.
    """
    script = tmp_path / "rank.py"
    script.write_text(
        "import os, signal, sys, time; print('error: bad input', file=sys.stderr, flush=True)\n"
        "signal.signal(signal.SIGUSR1, lambda *_: (print('heard', flush=True), sys.exit(0)))\n"
        "os.kill(os.getppid(), signal.SIGUSR1); time.sleep(60)\n"
    )
    done = run_elastic(*ONE_PROCESS, script, SLURM_NODEID="1")
    assert (done.returncode, done.stdout) == (75, "heard\n"), done.stderr
    assert "Traceback" not in done.stderr
    said = done.stderr.splitlines()
    assert re.fullmatch(rf"launcher: Process \d+ got signal: {signal.SIGUSR1:d}", said[-1])
    assert "error: bad input" in said[-6:]


def test_a_model_worth_nothing_ends_the_launcher_and_is_not_trained_again(tmp_path):
    done = run_elastic(*ONE_PROCESS, *small_run(tmp_path / "run", 2))
    assert done.returncode == 3, done.stderr
    assert done.stdout.count("no model: the last one is worse than unigrams") == 1


SIGNALS = {
    "torch/distributed/elastic/multiprocessing/api.py": "class SignalException(Exception): pass\n"
}


def write_modules(folder, modules):
    """Write Python modules by their paths, and the packages that they are in."""
    for name, source in modules.items():
        for package in list(Path(name).parents)[-2::-1]:
            (folder / package).mkdir(exist_ok=True)
            (folder / package / "__init__.py").touch()
        (folder / name).write_text(source)


# A launcher that fails in its own clean-up, where the signal of a rank has interrupted it.
FAILING_LAUNCHER = """
import os
from torch.distributed.elastic.multiprocessing.api import SignalException
def main():
    with open(os.environ["MLSTM_EXIT_CODE"], "w") as file:
        file.write("3")
    try:
        raise SignalException("Process 1 got signal: 15")
    finally:
        start
"""


def test_a_launcher_that_fails_over_a_signal_ends_with_the_code_of_the_rank(tmp_path):
    write_modules(tmp_path, {"torch/distributed/run.py": FAILING_LAUNCHER, **SIGNALS})
    done = run_elastic("main.py", PYTHONPATH=str(tmp_path))
    expected = (3, "launcher: Process 1 got signal: 15\n")
    assert (done.returncode, done.stderr) == expected


@pytest.mark.parametrize(
    ("interpreter", "said"),
    [
        ("/no/python", "there is no /no/python"),
        ("{folder}/data", "{folder}/data cannot be executed"),
        ("{folder}/broken", "{folder}/broken does not start (exit code 3)"),
    ],
)
def test_a_missing_interpreter_is_no_broken_gpu(tmp_path, interpreter, said):
    (tmp_path / "data").write_text("no program")
    (tmp_path / "broken").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "broken").chmod(0o755)
    interpreter, said = (word.format(folder=tmp_path) for word in (interpreter, said))
    done = run_elastic(*ONE_PROCESS, "main.py", PYTHON=interpreter, SLURM_GPUS_ON_NODE="1")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: node {socket.gethostname()}: {said}; set PYTHON")


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
LAUNCHER = """
import os
def main():
    print("joined", os.environ["PET_SIGNALS_TO_HANDLE"])
"""


@pytest.fixture
def join(tmp_path):
    """A function that runs scripts/elastic.sh on a node with a stand-in for torch."""
    write_modules(tmp_path, {"torch/distributed/run.py": LAUNCHER, **SIGNALS})
    (tmp_path / "torch/__init__.py").write_text(TORCH)

    def run(words, **environment):
        added = {"SLURM_GPUS_ON_NODE": "2", "PYTHONPATH": str(tmp_path)}
        return run_elastic(*words.split(), **added, **environment)

    return run


@pytest.mark.parametrize(
    ("words", "environment", "fault"),
    [
        ("--nproc-per-node 2 main.py", {}, None),
        ("--nnodes 1:4 --nproc_per_node=1 main.py", {}, None),
        ("--nproc-per-node gpu main.py", {}, None),
        ("--nproc-per-node 8 main.py --train.device cpu", {}, None),
        ("--nproc-per-node 8 main.py", {}, "2 GPUs for --nproc-per-node 8; see nvidia-smi"),
        ("main.py", {"PET_NPROC_PER_NODE": "3"}, "2 GPUs for --nproc-per-node 3; see nvidia-smi"),
        ("--nproc-per-node 2 main.py", {"BROKEN": "cuda:1 fails"}, "GPU 1 does not work (CUDA err"),
        ("--nproc-per-node 2 main.py", {"BROKEN": "cuda:0 errs"}, "GPU 0 multiplies matrices inc"),
    ],
)
def test_a_node_joins_if_its_gpus_are_enough_and_work(join, words, environment, fault):
    done = join(words, **environment)
    if fault is not None:
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: node {socket.gethostname()}: {fault}")
        return
    assert done.returncode == 0, done.stderr
    joined, signals = done.stdout.split()
    assert joined == "joined"
    assert {"SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGXCPU"} <= set(signals.split(","))


def words_of(key):
    """The list of strings that a key of the TrainJob holds, in either of YAML's two ways."""
    inline = re.search(rf"^    {key}: \[(.*)\]$", TRAINJOB, re.MULTILINE)
    if inline:
        return inline[1].split(", ")
    block = re.search(rf"^    {key}:\n((?:      - .*\n)+)", TRAINJOB, re.MULTILINE)
    return [line.removeprefix("      - ").split(" #")[0] for line in block[1].splitlines()]


def test_a_pod_outlives_the_launcher_that_waits_for_its_ranks():
    grace = int(re.search(r"terminationGracePeriodSeconds: (\d+)", TRAINJOB)[1])
    script = (ROOT / "scripts/elastic.sh").read_text()
    assert grace > int(re.search(r"PET_SHUTDOWN_TIMEOUT:-(\d+)", script)[1])


@pytest.mark.slow
def test_the_trainjobs_command_trains(tmp_path):
    """One pod of two, expanded as the kubelet does it, with fewer processes and a small model."""
    words = words_of("args")
    own = " ".join(words[: words.index("main.py")]).replace("node=8", "node=2")
    for name, value in (("ADDR", "localhost"), ("PORT", str(free_port()))):
        own = own.replace(f"$(PET_MASTER_{name})", value)
    assert words_of("command") == ["bash", "scripts/elastic.sh"]
    assert not re.search(r"name: PET_", TRAINJOB)  # reserved for the controller
    pod = {"JOB_COMPLETION_INDEX": "0", "PET_NNODES": "2"}
    process = run_elastic(*own.split(), *small_run(tmp_path / "run", 20), **pod)
    assert process.returncode == 0, process.stderr
    assert rows_of(Path(tmp_path / "run"))[-1]["step"] == 20
