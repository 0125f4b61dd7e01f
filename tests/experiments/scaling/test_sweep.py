"""The sweep: its points, its rounds, failures, interruptions; two ranks for real where slow."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from configs.command import parse
from configs.options import RunOptions
from experiments.scaling import sweep
from experiments.scaling.measuring import results
from experiments.scaling.measuring.points import (
    EXCHANGES,
    FP32_BYTES,
    Point,
    Settings,
    bucket_count,
)
from experiments.scaling.sweep import Options
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import read_json
from tests.support.runs import run

SMALL = Settings(
    lanes_per_rank=2, window=8, precision="fp32", device="cpu", warm_up=3, blocks=2, steps=2
)
TWO = [Point.of(w, 8, "fp32", 25.0, 1) for w in (1, 2)]
CLOCK = ("computing", "exposed", "data_wait", "sent_bytes")


def repeat_of(seconds):
    """Return what a launch would have measured, in two blocks."""
    clock = [{"seconds": s, **dict.fromkeys(CLOCK, s / 4)} for s in (seconds, seconds + 0.2)]
    return {"clock": clock, "environment": {"nodes": 1, "device": "cpu"}}


class StandIn:
    """Measures without delay, and fails for the names in `fails`."""

    def __init__(self, *, fails=(), stops_after=None):
        self.fails, self.stops_after = fails, stops_after
        self.launched = []

    def __call__(self, point, options, number):
        if len(self.launched) == self.stops_after:
            raise KeyboardInterrupt
        self.launched.append(point.name)
        return "out of memory" if point.name in self.fails else repeat_of(1.0 + number)


def swept(folder, stand_in, **changes):
    options = Options(output=folder, **{**vars(SMALL), "repeats": 3, **changes})
    sweep.sweep(TWO, options, stand_in)
    return [read_json(results.path_of(folder, point)) for point in TWO]


def test_repeats_are_interleaved_and_keep_their_quartiles(tmp_path, capsys):
    stand_in = StandIn()
    one, two = swept(tmp_path, stand_in)
    names = [point.name for point in TWO]
    assert stand_in.launched == names * 3
    # Launches 1, 3 and 5, blocks 0.2 s apart: 2.0, 2.2, 4.0, 4.2, 6.0, 6.2
    seconds = one["summary"]["clock"]["seconds"]
    assert seconds == pytest.approx({"median": 4.1, "low": 2.65, "high": 5.55})
    assert len(two["repeats"]) == 3
    assert two["failure"] is None
    assert torch.__version__.startswith(two["origin"]["versions"]["torch"])  # "+cu132" may follow
    said = capsys.readouterr().out
    assert "2 points, 6 launches" in said
    assert "[6/6] w2_h8_fp32_b25_k1" in said
    assert "7.1000 s a step: computing" in said


def test_what_is_done_is_not_done_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, StandIn(stops_after=3))
    assert len(read_json(results.path_of(tmp_path, TWO[0]))["repeats"]) == 2
    rest = StandIn()
    swept(tmp_path, rest)
    assert rest.launched == [TWO[1].name, TWO[0].name, TWO[1].name]  # the second round first
    again = StandIn()
    swept(tmp_path, again)
    assert again.launched == []


def test_a_failure_is_kept_and_the_sweep_goes_on(tmp_path, capsys):
    stand_in = StandIn(fails=[TWO[1].name])
    one, two = swept(tmp_path, stand_in)
    assert stand_in.launched.count(TWO[1].name) == 1
    assert len(one["repeats"]) == 3
    assert two["failure"] == "out of memory"
    assert two["summary"] is None
    assert "failed: out of memory" in capsys.readouterr().out
    table = sweep.table([one, two])
    assert "failed: out of memory" in table
    assert "| w1_h8_none_k1 | 4.1000 | 2.6500 to 5.5500 | 1.0250 |" in table
    later = StandIn()
    swept(tmp_path, later)
    assert later.launched == []
    _, two = swept(tmp_path, later, retry=True)
    assert later.launched == [TWO[1].name] * 3
    assert two["failure"] is None


def test_other_settings_are_refused_before_anything_is_launched(tmp_path):
    swept(tmp_path, StandIn())
    with pytest.raises(InputError, match=r"w1_h8_none_k1.json: measured with lanes_per_rank 2"):
        swept(tmp_path, pytest.fail, lanes_per_rank=4, repeats=5)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_point_is_a_run_of_main_py(exchange, tmp_path, monkeypatch):
    settings = replace(SMALL, warm_up=5)
    point = Point.of(4, 8, exchange, 5.0, 2)
    monkeypatch.chdir(tmp_path)
    words = point.recipe(settings).arguments(None, Path("run"))
    assert words[:3] == ["main.py", "--run-dir", str(tmp_path / "run")]
    config = RunOptions.from_command_line(words[1:]).run
    assert (config.data.lanes, config.data.window, config.data.corpus) == (8, 8, None)
    assert (config.train.steps, config.log.every_steps) == (3 * 2 + 2 * 2, 2)
    assert config.train.device == "cpu"
    of_corpus = point.recipe(settings).arguments(tmp_path / "corpus", tmp_path)
    assert of_corpus[of_corpus.index("--data.corpus") + 1] == str(tmp_path / "corpus")


@pytest.mark.parametrize("cap", [1, 300, 1000, 10**6])
def test_buckets_are_those_of_ddp(cap):
    sizes = [10, 200, 3, 90, 90, 90, 500, 1, 1]
    tensors = [torch.empty(size) for size in sizes]
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, [cap])
    assert bucket_count([FP32_BYTES * size for size in sizes], cap) == len(buckets)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--worlds", "0"), "at least 1 rank"),
        (("--worlds", "0,2"), "at least 1 rank"),
        (("--exchanges", "fp8"), "one of fp32, fp16"),
        (("--hidden", "0"), "model.hidden_size"),
        (("--buckets", "0"), "bucket_cap_mb"),
        (("--windows", "0"), "windows_per_step"),
        (("--timeout", "nan"), "--timeout is nan; it must be finite"),
        (("--warm-up", "2"), "--warm-up is 2; it must be at least 3"),
        (("--worlds", "6", "--ranks-per-node", "4"), "6 ranks cannot be divided into nodes of 4"),
        (("--worlds", "8", "--ranks-per-node", "4"), "2 nodes: name a --launcher"),
        (("--launcher", "srun -N {node}"), r"KeyError\('node'\); known: {world}, {nodes}"),
        (("--launcher", "srun {world.x}"), r"AttributeError\(.*known: {world}, {nodes}"),
        (("--launcher", "srun {world[0]}"), r"TypeError\(.*known: {world}, {nodes}"),
    ],
)
def test_nonsense_is_refused_before_anything_is_launched(arguments, words, tmp_path):
    common = ("--output", str(tmp_path / "out"), "--device", "cpu")
    with pytest.raises(InputError, match=words):
        sweep.measure(parse(sweep.Options, arguments=[*common, *arguments]))
    assert not (tmp_path / "out").exists()


def test_blocks_are_the_rows_of_metrics():
    row = {"characters_per_second": 50.0, "data_wait_seconds": 0.5}
    several = {"exposed_seconds": 1.0, "sent_bytes": 7.0, "characters_per_second": 25.0}
    rows = [{**row, "characters": 200}, {**row, **several, "characters": 500}]
    first, second = sweep.blocks(rows, SMALL)
    assert first["seconds"] == pytest.approx(2.0)  # 4 s for two steps
    assert first["computing"] == pytest.approx(1.5)
    assert second["seconds"] == pytest.approx(6.0)
    assert second["computing"] == pytest.approx(4.5)
    assert (first["exposed"], second["exposed"], second["sent_bytes"]) == (0.0, 1.0, 7.0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_ranks_are_launched_and_measured(tmp_path):
    """A real sweep; Adasum of three ranks is impossible, and is kept as a failure."""
    axes = ("--worlds", "1,2,3", "--hidden", "64", "--exchanges", "fp32,fp16,adasum")
    size = ("--buckets", "0.05", "--windows", "1", "--lanes-per-rank", "4", "--window", "16")
    length = ("--repeats", "1", "--blocks", "2", "--steps", "2", "--threads", "1")
    process = run(
        *("-m", "experiments.scaling.sweep", "--output", tmp_path, *axes, *size, *length),
        timeout=550,
    )
    assert process.returncode == 1, process.stdout + process.stderr
    measured = {path.stem: read_json(path) for path in tmp_path.glob("*.json")}
    assert len(measured) == 1 + 2 * 3
    failure = measured.pop("w3_h64_adasum_k1")["failure"]
    assert failure.startswith("parallel.combine adasum combines ranks in pairs")
    for name, result in measured.items():
        ranks, clock = result["point"]["world"], result["summary"]["clock"]
        assert len(result["repeats"][0]["clock"]) == 2
        assert 0 < clock["computing"]["median"] <= clock["seconds"]["median"]
        if ranks > 1 and "adasum" not in name:
            bytes_each = 2 if "fp16" in name else 4
            ring = 2 * (ranks - 1) / ranks
            assert clock["sent_bytes"]["median"] == pytest.approx(ring * 74_880 * bytes_each)


def test_a_cluster_is_launched_by_its_command(tmp_path):
    launcher = "srun -N {nodes} torchrun --nproc-per-node {per_node} --rdzv-id s{number}"
    options = Options(output=tmp_path, launcher=launcher, ranks_per_node=8)
    words = sweep.launch_words(Point.of(32, 8, "flat", 25.0, 1), options, 5)
    assert " ".join(words) == "srun -N 4 torchrun --nproc-per-node 8 --rdzv-id s5"
    few = sweep.launch_words(Point.of(2, 8, "flat", 25.0, 1), options, 6)
    assert " ".join(few) == "srun -N 1 torchrun --nproc-per-node 2 --rdzv-id s6"
