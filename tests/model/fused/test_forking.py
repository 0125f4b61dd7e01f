"""A process that has computed may be forked, and its child computes on."""

import subprocess
import sys

import pytest

from model.fused.compilation import window_library
from tests.support.runs import ROOT

CODE = """
import os, signal, torch
from model import SentimentFeaturizer

torch.set_num_threads(2)
featurizer = SentimentFeaturizer("stars_512").fit()
expected = featurizer.transform(["It works."])
child = os.fork()
if child == 0:
    signal.alarm(60)  # or it would wait for ever
    os._exit(not (featurizer.transform(["It works."]) == expected).all())
_, status = os.waitpid(child, 0)
assert torch.get_num_threads() == 2
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


def test_the_child_of_a_process_that_has_computed_does_not_wait_for_ever():
    if window_library() is None:
        pytest.skip("no compiler")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], cwd=ROOT, timeout=100)
    assert done.returncode == 0
