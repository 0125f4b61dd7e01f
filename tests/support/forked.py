"""Python commands in processes that have torch imported already: seconds less for each.

A server imports what the commands do and forks a child for each of them. The child is a process
of its own: arguments, folder, environment, streams and exit code are a fresh interpreter's.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORTED = [
    "torch.utils.tensorboard",
    "sklearn.linear_model",
    "pandas",
    "tyro",
    "tests.support.preloaded",
]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(IMPORTED)


def run_forked(command, cwd, timeout, environment):
    """Run `python <command>`, a script or `-m module` and its arguments, and return the outcome."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [str(Path(folder) / name) for name in ("out", "err")]
        child = _context.Process(target=_child, args=(command, str(cwd), environment, streams))
        child.start()
        child.join(timeout)
        if child.exitcode is None:
            child.kill()
            child.join()
            raise subprocess.TimeoutExpired(command, timeout)
        out, err = (Path(stream).read_text(encoding="utf-8") for stream in streams)
        return subprocess.CompletedProcess(command, child.exitcode, out, err)


def _child(command, cwd, environment, streams):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, stream in enumerate(streams, start=1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Anew, since those of the server were made for its own streams.
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
    try:
        if command[0] == "-m":
            sys.argv = command[1:]
            sys.path[0] = cwd
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = command
            sys.path[0] = str(Path(command[0]).resolve().parent)
            runpy.run_path(command[0], run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
