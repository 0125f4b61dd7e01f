"""Kills a command at one of its file operations, repeats it, and compares what is there.

What counts as an operation: a rename, a removal, a new folder, a link, and a file that is opened
for writing. What must be there at the end: the bytes of a run that was never disturbed, apart from
dates, and no other file.
"""

import hashlib
import os
import random
import re
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.support.runs import ROOT, environment_of, environments_of, run_forked

EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CODE = """
import runpy, sys
from pathlib import Path
sys.path.insert(0, str(Path({script!r}).resolve().parent))
from tests.support.crash_points import kill_at
kill_at({folder!r}, {point}, {log!r})
sys.argv = {words!r}
runpy.run_path({script!r}, run_name="__main__")
"""


def kill_at(folder, point, log):
    """Kill this process at its n-th operation below a folder; log: a file for all operations."""
    count = 0
    lines = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else None

    def hook(event, args):
        nonlocal count
        if event not in EVENTS and not (event == "open" and (args[2] or 0) & WRITES):
            return
        try:
            path = os.fsdecode(args[0])
        except TypeError:  # a descriptor
            return
        # A name in an open folder is relative.
        if folder not in path and (os.path.isabs(path) or os.sep in path):
            return
        count += 1
        if lines is not None:
            os.write(lines, f"{event} {path!r}\n".encode())
        if count == point:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def run(command, folder, point=0, log=None, ranks=1):
    """Run a command, {} standing for a folder; return the exit code of the first rank."""
    words = [str(word).replace("{}", str(folder)) for word in command]
    environments = environments_of(ranks) if ranks > 1 else [environment_of()]

    def one(rank, environment):
        values = {"folder": str(folder), "point": point if rank == 0 else 0, "words": words}
        code = CODE.format(script=words[0], log=None if rank else log and str(log), **values)
        return run_forked(["-c", code], ROOT, 300, environment)

    with ThreadPoolExecutor(ranks) as threads:
        done = list(threads.map(one, range(ranks), environments))
    return done[0]


def digests(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "tfevents" not in path.name:
            content = path.read_bytes().replace(str(folder).encode(), b"@")
            content = re.sub(rb"20\d\d-\d\d-\d\d[T ]?[0-9:.+]*", b"", content)
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(content).hexdigest()
    return found


def faults(command, work, most, ranks=1):
    """Return how many points were tried, and what was wrong at each of the bad ones.

    A point at which the first run was not killed is bad: nothing was tried there.
    """
    whole, again, log = work / "whole", work / "again", work / "operations.txt"
    for folder, file in ((whole, log), (again, None)):
        folder.mkdir(parents=True)
        process = run(command, folder, log=file, ranks=ranks)
        assert process.returncode == 0, process.stderr
    expected = digests(whole)
    stable = {name for name, digest in digests(again).items() if expected.get(name) == digest}
    operations = log.read_text().splitlines()
    points = list(range(1, len(operations) + 1))
    if len(points) > most:
        points = sorted(random.Random(0).sample(points, most))
    wrong = []
    for point in points:
        folder = work / str(point)
        folder.mkdir()
        killed = run(command, folder, point, ranks=ranks).returncode == -signal.SIGKILL
        process = run(command, folder, ranks=ranks)
        got = digests(folder)
        differing = {name for name in stable if got.get(name) != expected[name]}
        differing |= got.keys() ^ expected.keys()
        if not killed or process.returncode or differing:
            line = process.stderr.strip().rpartition("\n")[2]
            what = f"exit code {process.returncode} ({line})" if process.returncode else ""
            what += "" if killed else "was not killed"
            wrong.append(f"{point} ({operations[point - 1]}): {what} {sorted(differing)}")
        shutil.rmtree(folder)
    return len(points), wrong
