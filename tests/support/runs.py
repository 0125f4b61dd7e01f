"""Running the commands of the repository as a user does."""

import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, redirect_stdout, suppress
from pathlib import Path

from tests.support.forked import RunningProcess, run_forked

ROOT = Path(__file__).resolve().parents[2]

# A run of seconds: a corpus of 40 reviews, evaluated and saved often. In fp32, ranks together come
# to what one process does, on any processor; 16-bit products, which `auto` may choose, round each
# rank's gradient before it is summed: test_exchange.py holds those.
SMALL_RUN = {
    "data.corpus": "tests/fixtures/v1/corpus",
    "model.hidden_size": 16,
    "optim.lr": 0.1,  # so high that a dozen steps beat unigrams
    "data.lanes": 8,
    "data.window": 16,
    "train.precision": "fp32",
    "log.every_steps": 4,
    "evaluate.every_steps": 10,
    "evaluate.lanes": 32,
    "checkpoint.every_steps": 6,
}

# Keys of a row of metrics that the clock decides.
CLOCKED = {
    *("characters_per_second", "data_wait_seconds", "exposed_seconds", "sent_bytes"),
    *("rank_characters_per_second", "slowest_rank", "bottleneck"),
}

# What an interpreter and its libraries read when they start: a forked process has started already.
READ_AT_START = ("PYTHON", "LC_", "OMP_")


def run(*command, env=None, timeout=120, **options):
    """Run `python <command>` in the repository and return the finished process.

    In a process forked for it, unless the interpreter itself, its environment or its streams count.
    """
    command = list(map(str, command))
    at_start = any(name.startswith(READ_AT_START) for name in env or {})
    if options or at_start or not is_ours(command):
        return run_anew(*command, env=env, timeout=timeout, **options)
    return run_forked(command, ROOT, timeout, environment_of(env))


@contextmanager
def unread_stdout():
    """Within this context, stdout is a pipe whose reader has left: every print fails."""
    reader, writer = os.pipe()
    os.close(reader)
    with (
        suppress(BrokenPipeError),  # of close: the stream still holds what could not be printed
        closing(open(writer, "w", buffering=1)) as stream,
        redirect_stdout(stream),
    ):
        yield


def run_anew(*command, env=None, timeout=120, **options):
    """Run `python <command>` in the repository in a new interpreter; return the outcome."""
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment_of(env),
        **options,
    )


def environment_of(changes=None):
    """Return this process's environment with changes, and one thread to each process.

    Output is buffered, as in a user's shell: PYTHONUNBUFFERED is dropped.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**inherited, "OMP_NUM_THREADS": "1", **(changes or {})}


def run_code(code, cwd=ROOT, timeout=120, env=None):
    """Run Python code in a folder, in a process forked for it."""
    return run_forked(["-c", code], cwd, timeout, environment_of(env))


def is_ours(command):
    """Say whether a command is code, a script, or a module of the repository."""
    module = command[1] if command[0] == "-m" else ""
    is_file = command[0] == "-c" or command[0].endswith(".py")
    return is_file or module.startswith(("mlstm_sentiment", "experiments.", "tests.", "model"))


def start(*command, env=None, streams=None):
    """Start `python <command>` in a process forked for it and return the running process.

    streams: as of RunningProcess.
    """
    return RunningProcess(list(map(str, command)), ROOT, environment_of(env), streams)


@contextmanager
def piped(*command):
    """Start `python <command>` between two pipes; yield the process, its input and its output.

    Its errors go to the path `process.errors`.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, said, errors = (Path(folder, name) for name in ("asked", "said", "errors"))
        for pipe in (asked, said):
            os.mkfifo(pipe)
        words = list(map(str, command))
        process = RunningProcess(words, ROOT, environment_of(), [said, errors], asked)
        process.errors = errors
        with open(said, "rb") as output, open(asked, "wb") as source:  # as the process opens them
            yield process, source, output


@contextmanager
def terminal():
    """Yield the path of a new terminal and the number of the file that reads what it shows."""
    outside, inside = os.openpty()
    try:
        yield os.ttyname(inside), outside
    finally:
        os.close(inside)
        os.close(outside)


def start_anew(*command):
    """Start `python <command>` in a new interpreter and return the running process."""
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        start_new_session=True,  # a group of its own, so that a test can signal all of it
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment_of(),
    )


def run_ranks(count, *command, last=(), cwd=ROOT, timeout=300):
    """Run `python <command>` as so many ranks, forked; return the finished processes.

    last: an option that the last rank alone is given, with this value.
    """
    commands = [[*map(str, command)] for _ in range(count)]
    if last:
        option, value = map(str, last)
        words = commands[-1]
        place = words.index(option) if option in words else len(words)
        words[place : place + 2] = [option, value]
    with ThreadPoolExecutor(count) as threads:
        waiting = [
            threads.submit(run_forked, words, cwd, timeout, environment)
            for words, environment in zip(commands, environments_of(count), strict=True)
        ]
        return [process.result() for process in waiting]


def run_ranks_anew(count, *command):
    """Run `python <command>` as so many ranks, in new interpreters; return the outcomes."""
    with ThreadPoolExecutor(count) as threads:
        return list(
            threads.map(
                lambda environment: run_anew(*command, env=environment), environments_of(count)
            )
        )


def start_ranks(count, *command):
    """Start `python <command>` as so many ranks; return the running processes."""
    return [start(*command, env=environment) for environment in environments_of(count)]


def environments_of(count):
    """Return what a launcher that restarts nothing sets for each rank of this machine."""
    shared = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    own = ({"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count))
    return [{**os.environ, "OMP_NUM_THREADS": "1", **shared, **ranks} for ranks in own]


def free_port():
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def small_run(run_dir, steps, **changes):
    """Return the arguments of a small pretraining run."""
    keys = {**SMALL_RUN, "train.steps": steps, **changes}
    pairs = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
    return ["main.py", "--run-dir", run_dir, *pairs]


def rows_of(run_dir):
    """Return the rows of metrics without what the clock decides."""
    lines = (Path(run_dir) / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [{key: value for key, value in row.items() if key not in CLOCKED} for row in rows]


def done(process):
    """Assert that a command succeeded; return its finished process."""
    assert process.returncode == 0, process.stdout + process.stderr
    return process


def trained(process):
    """Assert that a training reached its end, however little it learnt; return its process.

    A run of few steps ends with 3, without a model, for it does not beat unigrams.
    """
    assert process.returncode in (0, 3), process.stdout + process.stderr
    assert ("no model: " in process.stdout) == (process.returncode == 3)
    return process


def assert_refused(process, *words, code=2):
    """Assert one clear line, an exit code, and no traceback."""
    assert process.returncode == code, process.stdout + process.stderr
    assert "Traceback" not in process.stderr
    lines = [line for line in process.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, process.stderr
    for word in words:
        assert word in lines[0]


def run_shell(command, cwd, timeout=300):
    """Run a line of the README with this interpreter as `python`.

    In a process forked for it, unless it needs a shell.
    """
    # An installation calls it mlstm-sentiment; in a checkout it is a module.
    command = command.replace("mlstm-sentiment ", "python -m mlstm_sentiment ", 1)
    words = shlex.split(command) if not set("|&;<>$`*") & set(command) else [""]
    if words[0] == "python" and is_ours(words[1:]):
        return run_forked(words[1:], cwd, timeout, environment_of())
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment_of({"PATH": path}),
    )


def wait_for(path, condition, seconds=120):
    """Wait until a file's text meets a condition."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):  # not yet, or no longer
            if condition(path.read_text()):
                return
        time.sleep(0.02)
    raise AssertionError(f"{path} did not become ready")


def launch(processes, *command):
    return run(
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes, *command
    )
