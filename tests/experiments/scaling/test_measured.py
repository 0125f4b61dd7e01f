"""The model fitted to sweeps: made ones, whose parameters are known, and the one kept here."""

from dataclasses import asdict

import pytest

from experiments.scaling import measured
from experiments.scaling.measuring.explanation import Observation, SweepModel
from experiments.scaling.measuring.points import Point, Settings, design
from experiments.scaling.measuring.report import describe, tables
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.writer import write_json
from model.layers.config import ModelConfig
from scaling.step_time import Fabric, Synchronisation, step_time
from scaling.workload import Workload
from tests.support.runs import assert_refused, run

SETTINGS = Settings(lanes_per_rank=64, window=128)
RATES = {512: 4e12, 1024: 9e12}  # operations per second
LINK, NETWORK, OVERHEAD, OVERLAP = 20e9, 1.5e9, 0.004, 0.35
BYTES = {"fp16": 2, "flat-fp16": 2, "bf16": 2}
POINTS = design(
    (1, 2, 4, 8), (512, 1024), ("fp32", "fp16", "flat", "adasum"), (1.0, 0.5), (1, 4)
)  # fmt: skip


def simulated(point, *, per_node=4):
    """Return what a sweep would have written of a point, had the model said the truth.

    Eight ranks are two nodes. Adasum takes a quarter more than it sends bytes for.
    """
    parameters = Workload.of(ModelConfig(hidden_size=point.hidden_size)).parameters
    tokens = SETTINGS.lanes_per_rank * SETTINGS.window
    workload = Workload.of(ModelConfig(hidden_size=point.hidden_size))
    size = BYTES.get(point.exchange, 4)
    pieces = point.pieces
    how = Synchronisation(
        bytes_per_parameter=size, chunks=pieces, windows=point.windows_per_step,
        overlap=OVERLAP if pieces > 1 else 0.0,
    )  # fmt: skip
    fabric = Fabric(
        gpus_per_node=per_node, link_bytes_per_second=LINK, network_bytes_per_second=NETWORK
    )
    computing = tokens * workload.operations_per_token / RATES[point.hidden_size]
    step = step_time(computing, parameters, point.world, fabric, how, overhead=OVERHEAD)
    factor = 1.25 if point.exchange == "adasum" else 1.0
    k, ring = point.windows_per_step, 2 * (point.world - 1) / point.world
    seconds, exposed = step.seconds * k * factor, step.exposed * k
    clock = {"seconds": seconds, "exposed": exposed, "sent_bytes": ring * size * parameters}
    quartiles = {
        name: {"median": v, "low": 0.99 * v, "high": 1.02 * v} for name, v in clock.items()
    }
    return {
        "format_version": 1,
        "point": asdict(point),
        "settings": SETTINGS.settings,
        "failure": None,
        "summary": {"clock": quartiles},
        "repeats": [{"environment": {"nodes": -(-point.world // per_node), "device": "Some GPU"}}],
    }  # fmt: skip


def modelled(points):
    return SweepModel([Observation.of(simulated(point)) for point in points])


TRUTH = {
    "operations_per_second_512": RATES[512],
    "operations_per_second_1024": RATES[1024],
    "link_bytes_per_second": LINK,
    "network_bytes_per_second": NETWORK,
    "overhead_seconds": OVERHEAD,
    "overlap": OVERLAP,
}


@pytest.fixture(scope="module")
def fit_of_all():
    """The model of a whole sweep, and its parameters fitted."""
    model = modelled(POINTS)
    return model, model.fit()


def test_a_fit_finds_what_made_the_sweep(fit_of_all):
    model, fitted = fit_of_all
    assert model.parameters(fitted) == pytest.approx(TRUTH, rel=1e-4)
    assert fitted.worst < 1e-5
    assert len(fitted.errors) == sum(point.exchange != "adasum" for point in POINTS)


def test_what_computes_too_is_foretold_but_not_fitted(fit_of_all):
    result = describe(*fit_of_all, [simulated(point) for point in POINTS])
    errors = {row["name"]: row["error"] for row in result["points"]}
    left_out = {row["name"] for row in result["points"] if not row["fitted"]}
    assert left_out == {name for name in errors if "adasum" in name}
    assert all(errors[name] == pytest.approx(1 / 1.25 - 1, abs=1e-4) for name in left_out)
    assert not result["only_a_check_of_the_harness"]
    assert "(-20.0%)" in tables(result)


def test_sweeps_that_tell_too_little_are_refused():
    model = modelled([point for point in POINTS if point.name != "w1_h512_none_k4"])
    bases = {model.base(o).point.name for o in model.observations}
    assert bases == {"w1_h512_none_k1", "w1_h1024_none_k1", "w1_h1024_none_k4"}
    with pytest.raises(InputError, match=r"1024 units have no point of a single rank"):
        modelled([point for point in POINTS if point.name[:8] != "w1_h1024"])
    few = [Point.of(world, 512, "fp32", 1.0, 1) for world in (1, 2)]
    with pytest.raises(InputError, match=r"2 points for 4 parameters \(operations_per_second_512"):
        modelled(few).fit()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sweep").mkdir()
    for point in POINTS:
        write_json(tmp_path / "sweep" / f"{point.name}.json", simulated(point), "a result")
    return tmp_path / "sweep"


def test_the_command_writes_numbers(folder, tmp_path, capsys):
    output = tmp_path / "fit.json"
    failed = {**simulated(POINTS[3]), "failure": "out of memory", "summary": None, "repeats": []}
    write_json(folder / f"{POINTS[3].name}.json", failed, "a result")
    measured.explain(measured.Options(sweep=folder, output=output))
    result = read_json(output)
    assert result["parameters"] == pytest.approx(TRUTH, rel=1e-3)
    assert len(result["points"]) == len(POINTS) - 1
    said = capsys.readouterr().out
    assert "| overlap | 0.35 |" in said
    assert "6 parameters fitted to" in said


def test_unlike_or_failed_sweeps_are_refused(folder):
    other = {**simulated(POINTS[0]), "settings": {**SETTINGS.settings, "window": 64}}
    write_json(folder / f"{POINTS[0].name}.json", other, "a result")
    with pytest.raises(InputError, match="different settings"):
        measured.explain(measured.Options(sweep=folder))
    for path in folder.glob("*.json"):
        write_json(path, {**read_json(path), "summary": None}, "a result")
    with pytest.raises(InputError, match="all points failed"):
        measured.explain(measured.Options(sweep=folder))


def test_refused_in_one_line(tmp_path):
    command = ("-m", "experiments.scaling.measured", "--sweep", tmp_path)
    assert_refused(run(*command), "no points")
