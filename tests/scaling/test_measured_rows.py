"""The planner against what was measured: the tables of docs/speed.md, the figure of 2018."""

import re
from dataclasses import replace

import pytest

from configs.toml_file import load_config, read_toml
from model.layers.config import ModelConfig
from scaling.hardware import ClusterConfig
from scaling.planner import PlanOptions, read_job
from scaling.planning import Plan, TextSize
from tests.support.published_points import POINTS
from tests.support.runs import ROOT

CLUSTERS = ROOT / "configs/clusters"
SPEED = (ROOT / "docs/speed.md").read_text()
STUDY = (ROOT / "experiments/speed/README.md").read_text()
BASE = load_config(CLUSTERS.parent / "paper_4096.toml")


def plan(cluster, units, lanes, window, precision):
    run = replace(
        BASE,
        model=ModelConfig(hidden_size=units),
        data=replace(BASE.data, window=window, lanes=lanes, lanes_per_rank=None),
        train=replace(BASE.train, precision=precision),
    )
    return Plan(read_toml(CLUSTERS / f"{cluster}.toml", ClusterConfig), run, 1, TextSize(1e9))


def speed_of(cluster, what, units, lanes, window, precision="bf16"):
    planned = plan(cluster, units, lanes, window, precision)
    if what == "step":
        return planned.characters_per_second
    seconds = planned.recurrence_seconds(planned.pools[0], lanes)
    return lanes * window / seconds * (3 if what == "forward only" else 1)


def number(text):
    return float(text.replace(",", ""))


def in_table(page, start):
    """Return the second cell of the row that starts with these words."""
    (found,) = re.findall(rf"^\| {re.escape(start)}[^|]*\| ([\d.,]+)", page, re.MULTILINE)
    return number(found)


H200 = [
    ("4,096 units, Adam, 256 lanes of 256 bytes: a step", "step", 4096, 256, 256),
    ("the same, its recurrence alone", "recurrence", 4096, 256, 256),
    *(
        (f"1,024 units, Muon, {lanes} lanes of 128 bytes: main.py", "step", 1024, lanes, 128)
        for lanes in (128, 256, 512)
    ),
]
WITHOUT_AMX = [
    (f"{what}, {precision}, {units:,} units", what, units, precision)
    for what, precision, units in (
        ("training", "fp32", 512),
        ("training", "fp32", 1024),
        ("training", "bf16", 1024),
        ("forward only", "fp32", 512),
    )
]
WITH_AMX = [
    (f"{what}, {units:,} units", what, units)
    for what in ("training", "forward only")
    for units in (512, 1024)
]


@pytest.mark.parametrize(("row", "what", "units", "lanes", "window"), H200)
def test_an_h200_is_planned_within_15_per_cent(row, what, units, lanes, window):
    planned = speed_of("h200", what, units, lanes, window)
    assert planned == pytest.approx(in_table(SPEED, row), rel=0.15)


@pytest.mark.parametrize("units", [4096, 1024])
def test_the_recurrences_of_the_limits_are_planned_within_15_per_cent(units):
    (ours,) = re.findall(rf"^\| {units:,} units, 256 lanes .*\| ([\d.]+) \| \d+% \|$", SPEED, re.M)
    planned = speed_of("h200", "recurrence", units, 256, 256)
    assert planned == pytest.approx(1e6 * number(ours), rel=0.15)


@pytest.mark.parametrize(("row", "what", "units", "precision"), WITHOUT_AMX)
def test_two_cores_without_amx_are_planned_within_15_per_cent(row, what, units, precision):
    planned = speed_of("cpu_avx512", what, units, 128, 256, precision)
    assert planned == pytest.approx(in_table(SPEED, row), rel=0.15)


def test_a_whole_step_on_two_cores_is_planned_within_15_per_cent():
    (ratio,) = re.findall(r"A whole training step reaches ([\d.]+) of the speed", SPEED)
    step, alone = (speed_of("cpu_avx512", w, 1024, 128, 256, "fp32") for w in ("step", "alone"))
    assert step / alone == pytest.approx(number(ratio), rel=0.15)


@pytest.mark.parametrize(("row", "what", "units"), WITH_AMX)
def test_two_cores_with_amx_are_planned_within_15_per_cent(row, what, units):
    """docs/speed.md has only ratios for them; the study has their characters per second."""
    table = STUDY.partition("experiments.speed.tables.with_amx")[2].partition("<!-- /made")[0]
    planned = speed_of("cpu_amx", what, units, 128, 128)
    assert planned == pytest.approx(in_table(table, row), rel=0.15)


@pytest.mark.parametrize("curve", POINTS)
def test_the_published_points_are_planned_within_4_per_cent(curve):
    network, units = curve.split("_")
    path = CLUSTERS / f"dgx1v_{network}.toml"
    run, _ = read_job(PlanOptions(model=units, cluster=path))
    cluster = read_toml(path, ClusterConfig)
    planned = [gpus * Plan(cluster, run, gpus, TextSize(1e9)).efficiency for gpus in GPUS]
    assert planned == pytest.approx(POINTS[curve], rel=0.04)


GPUS = (8, 16, 32, 64, 128)
