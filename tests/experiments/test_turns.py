"""Checkouts that take turns."""

import os
import subprocess

import pytest

from experiments.recurrence.turns import TurnsOptions, measure, summary
from model.errors import InputError
from tests.support.runs import ROOT


@pytest.mark.parametrize(
    ("piece", "pieces"),
    [("step", ["step", "recurrence"]), ("inference", ["fused", "fused_from_inputs"])],
)
def test_checkouts_do_the_same_work_in_turns(piece, pieces):
    sizes = {"hidden_size": 8, "batch": 2, "window": 4, "embedding_size": 3}
    options = TurnsOptions(
        checkouts=(ROOT, ROOT), piece=piece, dtype="fp32", threads=1, rounds=2, **sizes
    )
    found = measure(options)
    assert list(found["pieces"]) == pieces
    for both in found["pieces"].values():
        assert both[0]["revision"] == both[1]["revision"]
        assert both[0]["range"] == [1.0, 1.0]
        assert all(len(one["seconds"]) == 2 and one["chars_per_second"] > 0 for one in both)


def test_a_checkout_is_compared_with_the_first_round_by_round():
    found = summary("new", [1.0, 4.0, 2.0], [4.0, 4.0, 4.0], 10)
    assert found["speed_over_first"] == 2.0
    assert found["range"] == [1.0, 4.0]
    assert found["chars_per_second"] == 5.0


def test_a_checkout_whose_process_ends_is_named(tmp_path):
    (tmp_path / "scaling").mkdir()
    (tmp_path / "scaling" / "__init__.py").write_text("raise SystemExit(3)")
    with pytest.raises(InputError, match=f"of {tmp_path.name} ended early"):
        measure(TurnsOptions(checkouts=(tmp_path,), rounds=1))


def test_no_checkout_is_told():
    with pytest.raises(InputError, match="name one checkout or more"):
        TurnsOptions(checkouts=())


def test_the_script_for_matrix_units_says_how_to_call_it():
    script = ROOT / "experiments" / "recurrence" / "matrix_units.sh"
    done = subprocess.run(["bash", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage: bash experiments/recurrence/matrix_units.sh FOLDER" in done.stderr


def test_the_script_for_matrix_units_takes_no_checkout_that_is_not_there(tmp_path):
    script = ROOT / "experiments" / "recurrence" / "matrix_units.sh"
    call = ["bash", script, tmp_path / "out", tmp_path / "no" / "checkout"]
    done = subprocess.run(
        call, capture_output=True, text=True, env={"PATH": os.defpath}, timeout=20
    )
    assert done.returncode == 2
    assert "checkout" in done.stderr
    assert not (tmp_path / "out").exists()
