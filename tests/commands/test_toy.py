"""The toy from its training to the study of its unit, as a student runs it."""

import json
import resource

import pytest

from tests.support.checkouts import make_checkout
from tests.support.runs import done, run_shell

SETS = "--train t/labelled/train.csv --val t/labelled/val.csv --test t/labelled/test.csv"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_toy_is_trained_and_its_unit_studied_in_a_minute(tmp_path):
    """The study takes half a minute on an idle machine; twice that is the limit here."""
    folder = make_checkout(tmp_path)
    done(run_shell("python main.py --run-dir t --train.steps 60", cwd=folder, timeout=400))
    done(run_shell("python scripts/synthesize_reviews.py --output t/labelled", cwd=folder))
    before = _processor_seconds()
    study = f"OMP_NUM_THREADS=1 python scripts/neuron.py --model t --output t/study {SETS}"
    done(run_shell(study, cwd=folder, timeout=400))
    assert _processor_seconds() - before < 60
    results = json.loads((folder / "t/study/neuron.json").read_text())
    assert len(results["ranking"]["weight"]) == 128
    assert results["by_labels"]["counts"][-1] == 2000
    assert len(list((folder / "t/study/figures").iterdir())) >= 4


def _processor_seconds() -> float:
    """Return what the processes that have ended took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
