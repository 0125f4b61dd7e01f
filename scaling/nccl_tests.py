"""A table of bandwidths from the output of NVIDIA's nccl-tests.

`all_reduce_perf -b 8 -e 1G -f 2` prints a line for every size; with `-J FILE` it writes JSON, too.
Its bus bandwidth is B of the performance model, t = 2 (p - 1) / p S / B. It is printed with two
decimals only, so B is computed from the time, and the factor 2 (p - 1) / p from the largest size.
"""

import json
import math
import re
import statistics
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from model.errors import InputError

from .bandwidth import BandwidthTable

COLLECTIVE = "all_reduce"
LAUNCHER = re.compile(r"^(\[[^\]]*\]<std\w+>:\s*|\d+:\s)")  # mpirun and srun put the rank in front
TIMES = ("time", "cputime", "cpu_time")
MICROSECOND = 1e-6
GIGABYTE = 1e9


class AllReduce(NamedTuple):
    """An all-reduce of one size, in place, as torch's is."""

    size: float  # bytes
    seconds: float
    algorithm: float  # bytes per second: size over seconds
    bus: float  # bytes per second: 2 (p - 1) / p of that
    wrong: float  # number of values that were wrong


@cache
def read_bandwidths(path: Path) -> BandwidthTable:
    """Read what all_reduce_perf printed, or wrote as JSON.

    Raises InputError if the file is something else, cut off, or of another measurement.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text ({error})") from error
    in_json = text.lstrip().startswith("{")
    rows = _of_json(text, path) if in_json else _of_text(text, path)
    return _table([row for row in rows if row.size], path)


def _table(rows: Sequence[AllReduce], path: Path) -> BandwidthTable:
    """Return B by size; the median, if a size was measured several times."""
    if not rows:
        raise InputError(f"{path}: no line of all_reduce_perf's table is in it")
    for row in rows:
        place = f"{path}: {row.size:,.0f} bytes"
        if row.wrong:
            raise InputError(f"{place}: {row.wrong:g} values were wrong")
        if not (0 < row.size < math.inf and 0 < row.seconds < math.inf):
            raise InputError(f"{place} in {row.seconds:g} s; both must be above zero and finite")
    largest = max(rows)
    if not largest.algorithm > 0:
        raise InputError(
            f"{path}: {largest.size:,.0f} bytes, the most of it, are too few to find a bandwidth "
            "by; measure up to 1G"
        )
    factor = largest.bus / largest.algorithm
    # It is 1 for two ranks, nearly 2 for many; two decimals are printed.
    if not 0.99 <= factor < math.inf:
        raise InputError(
            f"{path}: bus over algorithm bandwidth is {factor:.2f}; of an all-reduce over two "
            "ranks or more it is at least 1"
        )
    sizes = sorted({row.size for row in rows})
    seconds = [statistics.median(row.seconds for row in rows if row.size == s) for s in sizes]
    speeds = (factor * size / t for size, t in zip(sizes, seconds, strict=True))
    return BandwidthTable(tuple(sizes), tuple(speeds))


def _of_text(text: str, path: Path) -> list[AllReduce]:
    columns: list[str] = []
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = LAUNCHER.sub("", line).replace("#", " # ", 1).split()
        _check_collective(words, "starting:", path)
        if words[1:4] == ["size", "count", "type"]:
            columns = words[1:]
        elif columns and words and words[0].isdecimal():  # between them, NCCL's own messages
            rows.append(_row_of(words, columns, f"{path}, line {number}"))
    return rows


def _row_of(words: list[str], columns: list[str], place: str) -> AllReduce:
    if len(words) < len(columns):
        raise InputError(f"{place}: {len(words)} of {len(columns)} columns; is it cut off?")
    cells = dict(zip(columns, words, strict=False))  # of two columns of a name the latter: in place
    try:
        seconds = float(next(cells[name] for name in TIMES if name in cells)) * MICROSECOND
        algorithm, bus = (float(cells[name]) * GIGABYTE for name in ("algbw", "busbw"))
        wrong = cells.get("#wrong", "N/A").replace("N/A", "0")
        return AllReduce(float(words[0]), seconds, algorithm, bus, float(wrong))
    except (ValueError, KeyError, StopIteration) as error:
        raise InputError(f"{place}: not a line of all_reduce_perf's table ({error!r})") from error


def _of_json(text: str, path: Path) -> list[AllReduce]:
    try:
        content = json.loads(text)
        _check_collective([" ", *content.get("args", ())], " ", path)
        return [_of_result(result) for result in content["results"]]
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); is it cut off?") from error
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise InputError(f"{path}: not what all_reduce_perf writes with -J ({error!r})") from error


def _of_result(result: dict[str, Any]) -> AllReduce:
    measured = result["in_place"] or result["out_of_place"]
    microseconds = float(next(measured[name] for name in TIMES if name in measured))
    algorithm, bus = (float(measured[name]) * GIGABYTE for name in ("alg_bw", "bus_bw"))
    wrong = float(measured.get("nwrong") or 0)
    return AllReduce(float(result["size"]), microseconds * MICROSECOND, algorithm, bus, wrong)


def _check_collective(words: Sequence[str], before: str, path: Path) -> None:
    """Raise InputError if the word after `before` is another test's name."""
    if before in words[:-1]:
        name = words[words.index(before) + 1].rpartition("/")[2]
        if COLLECTIVE not in name:
            raise InputError(f"{path}: of {name}; the model takes {COLLECTIVE}_perf")
