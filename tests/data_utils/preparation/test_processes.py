"""Worker processes ignore Ctrl-C, which the main process handles, and end with it."""

import os
import signal
import subprocess
import sys
import time

from data_utils.preparation.processes import map_in_order
from tests.support.runs import ROOT


def test_ctrl_c_is_left_to_the_process_that_waits():
    before = signal.getsignal(signal.SIGINT)
    handlers = map_in_order(signal.getsignal, [signal.SIGINT] * 3, workers=2)
    assert list(handlers) == [signal.SIG_IGN] * 3
    assert list(map_in_order(signal.getsignal, [signal.SIGINT], workers=1)) == [before]


WORKERS = """
import sys, time
from data_utils.preparation.processes import map_in_order
from tests.data_utils.preparation.test_processes import name_and_wait

if __name__ == "__main__":
    for _ in map_in_order(name_and_wait, range(2), 2):
        pass
"""


def name_and_wait(piece):
    """Print the id of this process, then sleep."""
    print(os.getpid(), flush=True)
    time.sleep(600)


def test_the_processes_of_a_killed_command_end(tmp_path):
    """Workers that live on would wait for ever, or write into the corpus of the next command."""
    (tmp_path / "prepare.py").write_text(WORKERS)
    with subprocess.Popen(
        [sys.executable, tmp_path / "prepare.py"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for _ in range(2):  # both work
            process.stdout.readline()
        process.kill()
        process.communicate(timeout=60)  # until the last of them has closed the pipe
