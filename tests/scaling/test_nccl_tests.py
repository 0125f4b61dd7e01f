"""The output of nccl-tests, read as bandwidths by size, and used by the planner."""

import json
import math

import numpy as np
import pytest

from model.errors import InputError
from scaling.bandwidth import BandwidthTable, slowest
from scaling.nccl_tests import read_bandwidths
from scaling.planner import PlanOptions, make_plan
from scaling.step_time import Fabric, Synchronisation, step_time
from tests.support.runs import ROOT

RANKS = 4
FACTOR = 2 * (RANKS - 1) / RANKS
# Bytes, and microseconds out of place and in place.
TIMES = {1024: (20.4, 20.0), 1048576: (60.0, 50.0), 67108864: (1100.0, 1000.0)}
HEAD = """\
# nccl-tests version 2.17.1 nccl-headers=22807 nccl-library=22807
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 1024 maxBytes 67108864 step: 256(factor) warmup iters: 1 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on       here device  0 [0000:04:00] Some GPU
#
#                                                              out-of-place             in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time  \
 algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  \
(GB/s)  (GB/s)
"""
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 21.5\n#\n"


def printed(times=TIMES, *, factor=FACTOR, wrong="0"):
    """Return the text of all_reduce_perf, as its columns stand."""
    lines = []
    for size, pair in times.items():
        line = f"{size:12d}  {size // 4:12d}     float     sum      -1"
        for microseconds in pair:
            speed = size / microseconds / 1e3  # GB/s
            line += f"  {microseconds:7.2f}  {speed:6.2f}  {speed * factor:6.2f}  {wrong:>6}"
        lines.append(line)
    return HEAD + "\n".join(lines) + "\n" + FOOT


def in_json(times=TIMES):
    def measured(size, microseconds):
        speed = size / microseconds / 1e3
        return {"time": microseconds, "alg_bw": speed, "bus_bw": speed * FACTOR, "nwrong": 0.0}

    results = [
        {
            "size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
            "out_of_place": measured(size, out), "in_place": measured(size, inside),
        }
        for size, (out, inside) in times.items()
    ]  # fmt: skip
    return {"version": 2, "args": ["build/all_reduce_perf", "-J", "x"], "results": results}


@pytest.fixture
def written(tmp_path):
    def write(content, name="all_reduce_perf.txt"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


@pytest.mark.parametrize("content", [printed(), in_json()], ids=["text", "json"])
def test_bandwidths_are_bytes_of_the_ring_over_seconds_in_place(written, content):
    table = read_bandwidths(written(content))
    assert table.sizes == tuple(TIMES)
    expected = [FACTOR * size / (inside * 1e-6) for size, (_, inside) in TIMES.items()]
    # The factor comes from two printed decimals of 67.11 and 100.66.
    assert table.bytes_per_second == pytest.approx(expected, rel=1e-4)


def test_an_all_reduce_takes_the_measured_time(written):
    table = read_bandwidths(written(printed()))
    fabric = Fabric(gpus_per_node=4, link_bytes_per_second=table, network_bytes_per_second=math.inf)
    for size, (_, inside) in TIMES.items():
        assert fabric.all_reduce_seconds(size, RANKS) == pytest.approx(inside * 1e-6, rel=1e-4)
    small, large = (fabric.all_reduce_seconds(size, RANKS) for size in (8, 671088640))
    assert small == pytest.approx(20e-6, rel=1e-4)  # latency alone
    assert large == pytest.approx(10e-3, rel=1e-4)  # ten times the largest
    middle = fabric.all_reduce_seconds(math.sqrt(1024 * 1048576), RANKS)
    assert middle == pytest.approx(math.sqrt(20e-6 * 50e-6), rel=1e-4)


@pytest.mark.parametrize("within", [False, True])
def test_pieces_travel_as_fast_as_pieces_do(written, within):
    table = read_bandwidths(written(printed()))
    fabric = Fabric(
        gpus_per_node=RANKS if within else 1,
        link_bytes_per_second=table if within else math.inf,
        network_bytes_per_second=math.inf if within else table,
    )
    size = 4 * 1048576
    assert fabric.all_reduce_seconds(size, RANKS, pieces=4) == pytest.approx(4 * 50e-6, rel=1e-4)
    assert fabric.all_reduce_seconds(size, RANKS) < 4 * 50e-6
    how = Synchronisation(bytes_per_parameter=4, chunks=4)
    step = step_time(1.0, size // 4, RANKS, fabric, how)
    assert step.exposed == pytest.approx(4 * 50e-6, rel=1e-4)


def test_nothing_sent_takes_no_time():
    table = BandwidthTable((1e3, 1e6), (1e6, 1e9))
    fabric = Fabric(gpus_per_node=2, link_bytes_per_second=table, network_bytes_per_second=math.inf)
    assert fabric.all_reduce_seconds(0.0, 2) == 0


def test_the_slowest_is_so_for_large_sizes():
    table = BandwidthTable((1e3, 1e6), (1e6, 1e9))
    assert slowest(table, 2e9) is table
    assert slowest(table, 5e8) == 5e8


def test_what_launchers_and_nccl_print_between_is_passed_over(written):
    plain = read_bandwidths(written(printed()))
    lines = printed().splitlines()
    for n, prefix in enumerate(("0: ", " 3: ".lstrip(), "[1,0]<stdout>: ")):
        noisy = []
        for line in lines:
            noisy += ["here:4711:4712 [0] NCCL INFO Channel 00/04 : 0 1 2 3", line, ""]
        text = "\n".join(prefix + line for line in noisy)
        assert read_bandwidths(written(text, f"{n}.txt")) == plain


def test_the_columns_of_2019_are_read_too(written):
    """They had no root, and the largest error in place of the number of wrong values."""
    text = "# size count type redop time algbw busbw error time algbw busbw error\n"
    text += "67108864 16777216 float sum 1100.0 61.01 91.51 4e-07 1000.0 67.11 100.66 5e-07\n"
    (speed,) = read_bandwidths(written(text)).bytes_per_second
    assert speed == pytest.approx(FACTOR * 67108864 / 1e-3, rel=1e-4)


def test_a_size_measured_several_times_has_the_median(written):
    rows = [printed({67108864: (1.0, t)}).splitlines()[-4] for t in (1000.0, 3000.0, 1100.0)]
    (speed,) = read_bandwidths(written(HEAD + "\n".join(rows))).bytes_per_second
    assert speed == pytest.approx(FACTOR * 67108864 / 1.1e-3, rel=1e-3)


TORN = printed().splitlines()[:-5]
BAD = [
    ("", "no line of all_reduce_perf's table"),
    ("[]", "no line of all_reduce_perf's table"),
    (HEAD, "no line of all_reduce_perf's table"),
    ("\n".join([*TORN, "  67108864  16777216   float"]), r"line 12: 3 of 13 columns; is it cut"),
    (printed().replace("1000.00", "soon"), "not a line of all_reduce_perf's table"),
    (printed().replace("1000.00", "0"), "67,108,864 bytes in 0 s"),
    (printed(wrong="7"), "1,024 bytes: 7 values were wrong"),
    (printed({8: (20.0, 20.0)}), "8 bytes, the most of it, are too few"),
    (printed(factor=0.0), "at least 1"),
    (printed(factor=0.75), r"is 0.75; of an all-reduce"),
    (printed().replace("all_reduce_perf", "alltoall_perf"), "of alltoall_perf; the model takes"),
    ("{", "not JSON"),
    ('{"results": ' + "[" * 100_000, "not JSON"),
    (in_json({8: (1.0, 1.0), math.inf: (1.0, 1.0)}), "both must be above zero and finite"),
    (in_json({8: (1.0, 1.0), -8: (1.0, 1.0)}), "both must be above zero and finite"),
    (printed().replace("1000.00", "inf"), "both must be above zero and finite"),
    (printed(factor=math.nan), "is nan; of an all-reduce"),
    ({}, "not what all_reduce_perf writes"),
    ({**in_json(), "args": ["./sendrecv_perf"]}, "of sendrecv_perf"),
    ({**in_json(), "results": [{"size": 8}]}, "not what all_reduce_perf writes"),
    ({**in_json(), "results": 3}, "not what all_reduce_perf writes"),
]


@pytest.mark.parametrize(("content", "words"), BAD)
def test_what_is_no_such_output_is_refused(written, content, words):
    with pytest.raises(InputError, match=words):
        read_bandwidths(written(content))


def test_a_file_that_is_missing_or_binary_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_bandwidths(tmp_path / "nothing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text"):
        read_bandwidths(tmp_path / "binary")


def planned(cluster, *arguments):
    from configs.command import parse

    words = ("--model", "1024", "--cluster", str(cluster), *arguments)
    return make_plan(parse(PlanOptions, arguments=words))


@pytest.mark.parametrize(
    ("name", "old"), [("dgx1v_ethernet", "1.21e9"), ("h200", "350e9"), ("h200_nodes", "400e9")]
)
def test_a_cluster_names_a_file_instead_of_a_number(written, tmp_path, name, old):
    text = (ROOT / f"configs/clusters/{name}.toml").read_text()
    assert old in text
    speed = float(old)
    even = {size: (1.0, FACTOR * size / speed * 1e6) for size in (2**20, 2**30)}
    table, cluster = written(in_json(even), "even.json"), tmp_path / "cluster.toml"
    cluster.write_text(text)
    by_number = planned(cluster)
    cluster.write_text(text.replace(old, f'"{table}"'))
    by_table = planned(cluster)
    for key in ("step_seconds", "efficiency", "lemma_tokens_for_90_percent"):
        told = by_number[key]
        assert by_table[key] == (told if told is None else pytest.approx(told, rel=1e-9))
    half = {size: (1.0, 2 * out) for size, (_, out) in even.items()}
    cluster.write_text(text.replace(old, f'"{written(in_json(half), "half.json")}"'))
    assert planned(cluster)["efficiency"] < by_number["efficiency"]
    cluster.write_text(text.replace(old, '"nowhere.txt"'))
    with pytest.raises(InputError, match=r"nowhere.txt: no such file"):
        planned(cluster)


def test_between_sizes_it_is_straight_in_logarithms():
    random = np.random.default_rng(0)
    sizes = tuple(np.sort(random.uniform(1e3, 1e8, 6)).tolist())
    speeds = tuple(random.uniform(1e8, 1e11, 6).tolist())
    table = BandwidthTable(sizes, speeds)
    for low, high, a, b in zip(sizes, sizes[1:], speeds, speeds[1:], strict=False):
        part = 0.3
        size = low * (high / low) ** part
        assert table.at(size) == pytest.approx(a * (b / a) ** part, rel=1e-12)


def test_the_lemma_reads_the_table_at_the_size_of_a_piece(written, tmp_path):
    sizes = {2**20: 1e9, 2**30: 1e10}  # bytes per second: ten times for 1,024 times the size
    times = {size: (1.0, FACTOR * size / speed * 1e6) for size, speed in sizes.items()}
    text = (ROOT / "configs/clusters/dgx1v_ethernet.toml").read_text()
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(text.replace("1.21e9", f'"{written(in_json(times), "rising.json")}"'))
    whole, pieces = (
        planned(cluster, "--exchange", word)["lemma_tokens_for_90_percent"]
        for word in ("flat", "overlapped")
    )
    assert pieces / whole == pytest.approx(5 ** (math.log(10) / math.log(1024)), rel=1e-9)
