"""The sweep: its points, its turns, failures, interruptions; one rank for real, two where slow."""

import sys
from dataclasses import replace

import pytest
import torch

from configs.command import parse
from experiments.scaling import sweep
from experiments.scaling.measuring import environment, rank, results
from experiments.scaling.measuring.points import EXCHANGES, Point, Settings, arguments_of, design
from model.errors import InputError
from model.files.storage import read_json, write_json
from tests.runs import run
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig

SMALL = Settings(
    lanes_per_rank=2, window=8, precision="fp32", device="cpu", warm_up=3, blocks=2, steps=2
)
TWO = [Point.of(w, 8, "fp32", 25.0, 1) for w in (1, 2)]
CLOCK = ("computing", "exposed", "exposed_least", "data_wait", "sent_bytes")


def repeat_of(seconds):
    """Return what a launch would have measured, in two blocks."""
    clock = [{"seconds": s, **dict.fromkeys(CLOCK, s / 4)} for s in (seconds, seconds + 0.2)]
    return {
        "clock": clock,
        "profiler": {**dict.fromkeys(sweep.PROFILER, 0.1), "seconds": seconds, "pieces": 1.0},
        "environment": {"nodes": 1, "device": "cpu"},
    }


class StandIn:
    """Measures at once, and fails where it is told to."""

    def __init__(self, folder, *, fails=(), stops_after=None):
        self.folder, self.fails, self.stops_after = folder, fails, stops_after
        self.launched = []

    def __call__(self, point, number):
        if len(self.launched) == self.stops_after:
            raise KeyboardInterrupt
        self.launched.append(point.name)
        if point.name in self.fails:
            return "out of memory"
        seconds = 1.0 + number
        results.add_repeat(self.folder, point, SMALL, repeat_of(seconds))
        return None


def swept(folder, stand_in, **options):
    sweep.sweep(TWO, SMALL, folder, stand_in, **{"repeats": 3, **options})
    return [read_json(results.path_of(folder, point)) for point in TWO]


def test_repeats_take_turns_and_keep_their_quartiles(tmp_path, capsys):
    stand_in = StandIn(tmp_path)
    one, two = swept(tmp_path, stand_in)
    names = [point.name for point in TWO]
    assert stand_in.launched == names * 3
    # Launches 1, 3 and 5, blocks 0.2 s apart: 2.0, 2.2, 4.0, 4.2, 6.0, 6.2
    seconds = one["summary"]["clock"]["seconds"]
    assert seconds == pytest.approx({"median": 4.1, "low": 2.65, "high": 5.55})
    assert one["summary"]["profiler"]["pieces"]["median"] == 1.0
    assert len(two["repeats"]) == 3
    assert two["failure"] is None
    assert two["origin"]["versions"]["torch"] == torch.__version__
    said = capsys.readouterr().out
    assert "2 points, 6 launches" in said
    assert "[6/6] w2_h8_fp32_b25_k1" in said
    assert "7.1000 s a step: computing" in said


def test_what_is_done_is_not_done_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, StandIn(tmp_path, stops_after=3))
    assert len(read_json(results.path_of(tmp_path, TWO[0]))["repeats"]) == 2
    rest = StandIn(tmp_path)
    swept(tmp_path, rest)
    assert rest.launched == [TWO[1].name, TWO[0].name, TWO[1].name]  # the second turn first
    again = StandIn(tmp_path)
    swept(tmp_path, again)
    assert again.launched == []


def test_a_failure_is_kept_and_the_sweep_goes_on(tmp_path, capsys):
    stand_in = StandIn(tmp_path, fails=[TWO[1].name])
    one, two = swept(tmp_path, stand_in)
    assert stand_in.launched.count(TWO[1].name) == 1
    assert len(one["repeats"]) == 3
    assert two["failure"] == "out of memory"
    assert two["summary"] is None
    assert "failed: out of memory" in capsys.readouterr().out
    told = sweep.table([one, two])
    assert "failed: out of memory" in told
    assert "| w1_h8_none_k1 | 4 | 0.1 | 0.1 |" in told  # by the profiler, launches 1, 3, 5
    later = StandIn(tmp_path)
    swept(tmp_path, later)
    assert later.launched == []
    _, two = swept(tmp_path, later, retry=True)
    assert later.launched == [TWO[1].name] * 3
    assert two["failure"] is None


def test_a_launch_that_measures_nothing_has_failed(tmp_path):
    *_, two = swept(tmp_path, lambda point, number: None)
    assert two["failure"] == "it ended well, but measured nothing"


def test_other_settings_are_refused_before_anything_is_launched(tmp_path):
    swept(tmp_path, StandIn(tmp_path))
    other = replace(SMALL, lanes_per_rank=4)
    with pytest.raises(InputError, match=r"w1_h8_none_k1.json: measured with lanes_per_rank 2"):
        sweep.sweep(TWO, other, tmp_path, StandIn(tmp_path), repeats=5)


def test_a_file_that_is_no_point_is_refused(tmp_path):
    with pytest.raises(InputError, match="no points"):
        results.read_sweep(tmp_path)
    write_json(tmp_path / "other.json", {"format_version": 1})
    with pytest.raises(InputError, match=r"other.json: not a point"):
        results.read_sweep(tmp_path)


def test_one_thing_changes_at_a_time_unless_all_do():
    axes = ((1, 2), (8, 16), ("fp32", "flat"), (25.0, 5.0), (1, 4))
    points = design(*axes)
    assert len(points) == len(set(points)) == 2 * (2 + 4)
    of_two = {point.name for point in points if point.world == 2 and point.hidden_size == 8}
    assert of_two == {
        "w2_h8_fp32_b25_k1", "w2_h8_flat_k1", "w2_h8_fp32_b5_k1", "w2_h8_fp32_b25_k4",
    }  # fmt: skip
    of_one = {point.name for point in points if point.world == 1 and point.hidden_size == 8}
    assert of_one == {"w1_h8_none_k1", "w1_h8_none_k4"}  # alone, nothing travels
    everything = {point.name for point in design(*axes, all_combinations=True)}
    assert everything > {point.name for point in points}
    assert {"w2_h8_fp32_b5_k4", "w2_h8_flat_k4"} < everything
    with pytest.raises(InputError, match="at least one value"):
        design((1,), (8,), (), (25.0,), (1,))


def test_every_exchange_is_what_training_calls_it():
    for exchange, keys in EXCHANGES.items():
        given = Point.of(2, 8, exchange, 5.0, 4).parallel
        assert given == ParallelConfig(
            windows_per_step=4, **keys, **({} if "flat" in keys or "combine" in keys else
                                           {"bucket_cap_mb": 5.0}),
        )  # fmt: skip


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_ranks_understand_what_they_are_told(exchange, tmp_path):
    settings = replace(SMALL, threads=2, corpus=tmp_path)
    point = Point.of(4, 8, exchange, 5.0, 2)
    words = ["--output", str(tmp_path), *arguments_of(point, settings)]
    options = parse(rank.Options, arguments=words)
    assert options.point(4) == point
    assert options.settings == settings.settings
    alone = Point.of(1, 8, exchange, 5.0, 2)
    words = [*words[:2], *arguments_of(alone, SMALL)]
    assert parse(rank.Options, arguments=words).point(1) == alone


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--worlds", "0,2"), "at least 1 rank"),
        (("--exchanges", "fp8"), "one of fp32, fp16"),
        (("--hidden", "0"), "model.hidden_size"),
        (("--buckets", "0"), "bucket_cap_mb"),
        (("--windows", "0"), "windows_per_step"),
        (("--repeats", "0"), "--repeats"),
        (("--warm-up", "2"), "--warm-up is 2; at least 3"),
        (("--lanes-per-rank", "0"), "--lanes-per-rank is 0"),
        (("--ranks-per-node", "0"), "--ranks-per-node"),
        (("--worlds", "6", "--ranks-per-node", "4"), "6 ranks do not make nodes of 4"),
        (("--worlds", "8", "--ranks-per-node", "4"), "2 nodes: say how with --launcher"),
        (("--launcher", "srun -N {node}"), r"KeyError\('node'\); known: {world}, {nodes}"),
    ],
)
def test_nonsense_is_refused_before_anything_is_launched(arguments, words, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "sweep", pytest.fail)
    command = ["sweep", "--output", str(tmp_path / "out"), "--device", "cpu", *arguments]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(InputError, match=words):
        sweep.main()


def test_words_in_place_of_numbers_are_refused(capsys):
    with pytest.raises(SystemExit) as end:
        parse(sweep.Options, arguments=["--output", "x", "--worlds", "one"])
    assert end.value.code == 2
    assert "--worlds" in capsys.readouterr().err


def test_a_rank_has_the_same_threads_at_every_number_of_ranks(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)), raising=False)
    options = parse(sweep.Options, arguments=["--output", "x", "--worlds", "1,2,4"])
    assert sweep.settled(options).threads == 4
    assert sweep.settled(replace(options, worlds=(1, 32))).threads == 1
    assert sweep.settled(replace(options, worlds=(1, 32), ranks_per_node=8)).threads == 2
    assert sweep.settled(replace(options, threads=3)).threads == 3


def test_one_rank_measures_itself(tmp_path):
    world, point = World(0, 1, torch.device("cpu")), Point.of(1, 8, "fp32", 25.0, 2)
    repeat = rank.measure(point, SMALL, world)
    results.add_repeat(tmp_path, point, SMALL, repeat)
    assert len(repeat["clock"]) == SMALL.blocks
    for block in repeat["clock"]:
        assert 0 < block["computing"] <= block["seconds"]
        assert block["sent_bytes"] == block["exposed"] == 0
        # Two windows of two lanes and eight characters, but for what ends a shard.
        steps_per_second = 1 / block["seconds"]
        assert block["characters_per_second"] <= 32 * steps_per_second * (1 + 1e-9)
        assert block["characters_per_second"] >= 16 * steps_per_second
    parts = repeat["profiler"]
    assert 0 < parts["computing"] < parts["seconds"]
    assert parts["pieces"] == parts["communicating"] == 0
    place = repeat["environment"]
    assert (place["ranks"], place["nodes"]) == (1, 1)
    assert (place["device"], place["backend"]) == ("cpu", None)
    assert len(place["load"]) == len(place["load_after"]) == 3


def test_the_networks_speed_is_what_the_kernel_says(tmp_path):
    files = {
        "net/eth0/speed": "25000\n", "net/eth0/operstate": "up\n", "net/eth0/device/id": "",
        "net/eth1/operstate": "down\n", "net/eth1/device/id": "",
        "net/ib0/speed": "-1\n", "net/ib0/device/id": "",
        "net/lo/operstate": "unknown\n",
        "infiniband/mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)\n",
    }  # fmt: skip
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert environment.network(tmp_path) == {
        "eth0": "25000 Mb/s", "ib0": "unknown", "mlx5_0, port 1": "100 Gb/sec (4X EDR)",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_ranks_are_launched_and_measured(tmp_path):
    """A sweep for real; Adasum of three ranks cannot be, and is kept as a failure."""
    axes = ("--worlds", "1,2,3", "--hidden", "64", "--exchanges", "fp32,flat,fp16,adasum")
    size = ("--buckets", "0.05", "--windows", "1", "--lanes-per-rank", "4", "--window", "16")
    length = ("--repeats", "1", "--blocks", "2", "--steps", "2", "--threads", "1")
    process = run(
        *("-m", "experiments.scaling.sweep", "--output", tmp_path, *axes, *size, *length),
        timeout=550,
    )
    assert process.returncode == 1, process.stdout + process.stderr
    measured = {path.stem: read_json(path) for path in tmp_path.glob("*.json")}
    assert len(measured) == 1 + 2 * 4
    failure = measured.pop("w3_h64_adasum_k1")["failure"]
    assert failure.startswith("parallel.combine adasum pairs a power of two")
    assert (tmp_path / "w3_h64_adasum_k1.log").is_file()
    for name, result in measured.items():
        ranks = result["point"]["world"]
        place, clock = result["repeats"][0]["environment"], result["summary"]["clock"]
        assert (place["ranks"], place["backend"]) == (ranks, "gloo" if ranks > 1 else None)
        if ranks > 1 and "adasum" not in name:
            bytes_each = 2 if "fp16" in name else 4
            ring = 2 * (ranks - 1) / ranks
            assert clock["sent_bytes"]["median"] == pytest.approx(ring * 74_880 * bytes_each)
            pieces = result["summary"]["profiler"]["pieces"]["median"]
            assert pieces == 1 if "flat" in name else pieces > 1
