"""The study of the exchange: gradients' moments, and their replay over limited links."""

import pytest

from experiments.emulation.network import Unavailable, nodes
from experiments.exchange import readiness, replay
from model.files.storage import read_json
from tests.runs import assert_refused, run


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


def test_the_small_model_has_a_hundredth_of_the_parameters(profiles):
    options = replay.Options(profiles=profiles, output=profiles)
    profile = read_json(profiles)["together"]["leaves"]
    leaves = replay.leaves_of(profile, options, split=False)
    numbers = sum(torch_size(row["shape"]) for row in leaves)
    # 4,096 units: 86,319,360 parameters (reference: the published models)
    assert numbers == pytest.approx(863_194, rel=0.01)


def torch_size(shape):
    size = 1
    for side in shape:
        size *= side
    return size


@pytest.mark.slow
def test_replay_on_two_nodes(profiles, tmp_path):
    try:
        with nodes(2, "100mbit"):
            pass
    except Unavailable as error:
        pytest.skip(f"no network namespaces here: {error}")
    output = tmp_path / "replay.json"
    times = ("--seconds", "0.02", "--steps", "2", "--ranks", "2", "--hidden-size", "64")
    process = run(
        *("-m", "experiments.exchange.replay", *times, "--profiles", profiles, "--output", output)
    )
    assert process.returncode == 0, process.stderr
    rows = {(row["profile"], row["way"]): row for row in read_json(output)["rows"]}
    assert len(rows) == len(readiness.KINDS) * len(replay.WAYS)
    full, half = (rows["together", way]["sent_bytes"] for way in ("fp32", "fp16"))
    assert full == 2 * half
    assert all(row["exposed_seconds"] <= row["seconds"] for row in rows.values())


def test_nowhere_to_replay_is_one_line(profiles, tmp_path):
    command = ("-m", "experiments.exchange.replay", "--profiles", profiles)
    process = run(*command, "--output", tmp_path / "x.json", env={"PATH": ""})
    assert_refused(process, "cannot emulate a network here")
