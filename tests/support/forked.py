"""Python commands in processes that have torch imported already: seconds less for each.

A server imports what the commands do and forks a child for each of them. The child is a process
of its own: arguments, folder, environment, streams and exit code are a fresh interpreter's. Its
end is not: the child leaves without what `atexit` holds and without finalizing the interpreter, so
a hang or an abort there goes unnoticed. A test of how a process ends needs `runs.run_anew`.
"""

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORTED = [
    "torch.utils.tensorboard",
    "torch._dynamo",  # the first optimizer that a process makes imports it
    "sklearn.linear_model",
    "pandas",
    "tests.support.preloaded",
]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(IMPORTED)


def run_forked(command, cwd, timeout, environment):
    """Run `python <command>` and return the outcome.

    command: a script, `-m module` or `-c code`, and its arguments.
    """
    with tempfile.TemporaryDirectory() as folder:
        streams = [str(Path(folder) / name) for name in ("out", "err")]
        child = _start(command, cwd, environment, streams)
        child.join(timeout)
        if child.exitcode is None:
            child.kill()
            child.join()
            raise subprocess.TimeoutExpired(command, timeout)
        out, err = (Path(stream).read_text(encoding="utf-8") for stream in streams)
        return subprocess.CompletedProcess(command, child.exitcode, out, err)


class RunningProcess:
    """A forked command that runs next to the test, with what tests use of subprocess.Popen.

    streams: paths for its output and its errors, for instance of a terminal or a named pipe.
    Without them, `communicate` returns both. source: the path of its standard input.
    """

    def __init__(self, command, cwd, environment, streams=None, source=os.devnull):
        self._folder = tempfile.TemporaryDirectory()
        self._output = Path(self._folder.name, "output")
        self._output.touch()
        self._child = _start(command, cwd, environment, streams or [str(self._output)] * 2, source)
        self.pid = self._child.pid
        atexit.register(self.kill)  # of a test that failed: pytest would wait for it for ever

    @property
    def returncode(self):
        return self._child.exitcode

    def poll(self):
        return self.returncode

    def send_signal(self, number):
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """Wait for the end; return what the process has said, and None for a stream of errors."""
        self._child.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self._child.name, timeout)
        output = self._output.read_text(encoding="utf-8")
        self._folder.cleanup()
        return output, None


def _start(command, cwd, environment, streams, source=os.devnull):
    arguments = (command, str(cwd), environment, list(map(str, streams)), str(source))
    child = _context.Process(target=_child, args=arguments)
    child.start()
    return child


def _child(command, cwd, environment, streams, source):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, stream in enumerate(dict.fromkeys(streams), start=1):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY
        os.dup2(os.open(stream, flags, 0o600), number)
    if streams[0] == streams[1]:  # opened once: a pipe whose reader has left does not open again
        os.dup2(1, 2)
    os.dup2(os.open(source, os.O_RDONLY), 0)
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
        elif command[0] == "-c":
            sys.argv = ["-c", *command[2:]]
            sys.path[0] = cwd
            exec(command[1], {"__name__": "__main__"})
        else:
            sys.argv = command
            sys.path[0] = str(Path(command[0]).resolve().parent)
            runpy.run_path(command[0], run_name="__main__")
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # a command may have closed one
            stream.flush()
