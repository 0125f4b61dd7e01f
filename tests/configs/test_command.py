"""How commands end: bad output files, a missing package, a closed pipe, a full disk."""

import os
import resource
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch

from configs import end_in_one_line
from configs.command import prepare_output, run
from mlstm_sentiment.errors import InputError
from tests.support.runs import ROOT, assert_refused, run_anew

PRINTS = "from configs import command; command.run(lambda: print('word ' * 50_000))"


def test_folders_are_made_for_files_to_come(tmp_path):
    prepare_output(tmp_path / "a" / "b" / "c.json", None, tmp_path / "d.json")
    assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "d.json").exists()


@pytest.mark.parametrize(
    ("name", "message"), [(".", "is a folder"), ("file/x.json", "file is a file, not a folder")]
)
def test_what_cannot_be_written_is_refused_before_the_work(tmp_path, name, message):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(InputError, match=message):
        prepare_output(tmp_path / name)
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="is not writable"):
        prepare_output(tmp_path / "x.json")


def shell(command):
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=ROOT, capture_output=True, text=True
    )


@pytest.fixture
def run_after(tmp_path):
    """Return a function that runs a command after some code: Python imports it before all else."""

    def run_words(code, words):
        (tmp_path / "sitecustomize.py").write_text(code)
        return shell(f"PYTHONPATH={tmp_path} {sys.executable} {words}")

    return run_words


def test_the_first_message_after_pip_install_is_on_the_page_about_trouble(run_after):
    """`pip install .` does not install this package, which main.py needs."""
    process = run_after("import sys; sys.modules['tomli_w'] = None", "main.py --help")
    assert_refused(process, "tomli_w", "pip install -r requirements.txt")
    message = process.stderr.partition(":")[2].partition(":")[0].strip()
    assert message.startswith("the package")
    assert f"`error: {message}`" in (ROOT / "docs/troubleshooting.md").read_text()


INTERRUPTS = """
import sys
class Interrupting:
    def find_spec(self, name, *rest):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize(
    ("words", "imported"), [("main.py", "torch"), ("-m mlstm_sentiment models", "numpy")]
)
def test_ctrl_c_during_the_imports_is_one_word(run_after, words, imported):
    process = run_after(INTERRUPTS.format(name=imported), words)
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "interrupted\n")


def test_a_reader_that_has_seen_enough_is_no_error():
    process = shell(f'{sys.executable} -c "{PRINTS}" | head -c 4')
    assert (process.returncode, process.stdout, process.stderr) == (0, "word", "")


@pytest.mark.parametrize(
    ("encoding", "printed"), [("ascii", r"caf\xe9 \udce9"), ("utf-8", r"café \udce9")]
)
def test_what_the_terminal_cannot_say_is_escaped(encoding, printed):
    code = r"from configs import command; command.run(lambda: print('caf\xe9 \udce9'))"
    process = shell(f'PYTHONIOENCODING={encoding} {sys.executable} -c "{code}"')
    assert (process.returncode, process.stdout, process.stderr) == (0, f"{printed}\n", "")


WRITES = """
import time; from pathlib import Path
from mlstm_sentiment.commands.program import run
from mlstm_sentiment.files.writer import write_atomically
def write(path): path.write_text("a part"); print("begun", flush=True); time.sleep(60)
run(lambda: write_atomically(Path("answers"), write, "a result"))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGXCPU"])
def test_a_signal_leaves_no_file_half_written(tmp_path, name):
    number = getattr(signal, name)
    with subprocess.Popen(
        [sys.executable, "-c", WRITES],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        process.send_signal(number if name != "SIGINT" else 0)  # as `timeout` does
        is_limit = name in ("SIGUSR1", "SIGXCPU")
        assert process.wait(60) == (os.EX_TEMPFAIL if is_limit else 128 + number)
        assert process.stderr.read() == "interrupted\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("first", "said"), [(0, ""), (signal.SIGINT, "interrupted\n")])
def test_ctrl_c_while_python_ends_shows_no_traceback(first, said):
    code = (
        "import atexit, os, signal; from configs.command import run; "
        "interrupt = lambda number: os.kill(os.getpid(), number); "
        f"atexit.register(interrupt, signal.SIGINT); run(lambda: interrupt({int(first)}))"
    )
    done = run_anew("-c", code)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, said)


@pytest.mark.parametrize(("raised", "code"), [("0", 0), ("InputError('no')", 2)])
def test_sigterm_while_python_ends_does_not_change_how_the_command_ended(raised, code):
    ended = (
        "import atexit, os, signal; from configs.command import run\n"
        "from mlstm_sentiment.errors import InputError\n"
        "def command():\n"
        f"    if {raised}: raise {raised}\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGTERM); run(command)"
    )
    assert run_anew("-c", ended).returncode == code


def test_nohup_is_heeded_and_signals_are_given_back():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as end:
            run(lambda: os.kill(os.getpid(), signal.SIGHUP))
        assert not end.value.code
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_one_line():
    assert_refused(shell(f'{sys.executable} -c "{PRINTS}" > /dev/full'), "No space left")
    few = PRINTS.replace("50_000", "50")  # which wait for the end
    outcome = shell(f'env -u PYTHONUNBUFFERED {sys.executable} -c "{few}" > /dev/full')
    assert_refused(outcome, "error: standard output: No space left")


def test_an_error_is_short_whatever_it_quotes_and_a_missing_name_keeps_its_traceback(capsys):
    def quote_a_file():
        raise InputError(f"config.json: unknown {'key' * 9_000_000}\n; take it away")

    with pytest.raises(SystemExit):
        run(quote_a_file)
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) < 1100
    assert line.startswith("error: config.json: unknown key")
    assert line.endswith("; take it away")
    error = ModuleNotFoundError("no module named 'model.nothing'", name="model.nothing")
    end_in_one_line(ModuleNotFoundError, error, None)
    assert "ModuleNotFoundError" in capsys.readouterr().err


@pytest.mark.parametrize(
    "ask", [lambda: np.empty(1 << 60, np.uint8), lambda: torch.empty(1 << 60, dtype=torch.uint8)]
)
def test_too_little_memory_is_one_line(capsys, ask):
    with pytest.raises(SystemExit) as end:
        run(lambda: ask() and None)
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: not enough memory (")


@pytest.mark.parametrize("command", [("-m", "mlstm_sentiment", "models"), ("main.py", "--help")])
@pytest.mark.parametrize("megabytes", [60, 400])
def test_a_limit_of_memory_is_one_line_whatever_meets_it(command, megabytes):
    """An import, a thread or an array."""
    process = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes * 1_000_000,) * 2),
    )
    if process.returncode:
        assert_refused(process, "not enough memory")


def test_another_broken_pipe_is_an_error(capsys, tmp_path):
    def break_a_pipe_of_its_own():
        raise BrokenPipeError(32, "Broken pipe", "a worker")

    # Stdout is a file, not a pipe whose reader could have left.
    with (
        open(tmp_path / "out", "w") as file,
        redirect_stdout(file),
        pytest.raises(SystemExit) as end,
    ):
        run(break_a_pipe_of_its_own)
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: a worker: Broken pipe\n"


@pytest.mark.parametrize(
    ("restarts", "error", "ended"),
    [
        ("3", InputError("no such key"), [(os.getppid(), signal.SIGTERM)]),
        ("3", OSError(5, "Input/output error"), []),
        ("0", InputError("no such key"), []),
    ],
)
def test_what_is_refused_is_not_started_again(monkeypatch, capsys, restarts, error, ended):
    killed = []
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", restarts)
    monkeypatch.setattr("training.parallel.launcher.os.kill", lambda *call: killed.append(call))

    def refuse():
        raise error

    with pytest.raises(SystemExit) as end:
        run(refuse)
    assert end.value.code == 2
    assert killed == ended
