"""The study of the exchange: the moments at which gradients are ready."""

import pytest

from experiments.exchange import readiness
from model.files.storage import read_json
from tests.runs import run


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    path = tmp_path_factory.mktemp("profiles") / "readiness.json"
    sizes = ("--hidden-size", "64", "--lanes", "8", "--window", "16", "--rounds", "2")
    process = run("-m", "experiments.exchange.readiness", *sizes, "--output", path)
    assert process.returncode == 0, process.stderr
    return path


def test_gates_come_one_by_one(profiles):
    result = read_json(profiles)
    assert set(readiness.KINDS) <= set(result)
    names = [row["name"] for row in result["one by one"]["leaves"]]
    gates = [name for name in names if name.startswith("w_h")]
    assert gates == ["w_h, output", "w_h, candidate", "w_h, forget", "w_h, input"]
    for kind in readiness.KINDS:
        leaves = result[kind]["leaves"]
        assert sum(row["part"] for row in leaves) == pytest.approx(1)
        assert all(0 < row["ready"] <= 1 for row in leaves)
