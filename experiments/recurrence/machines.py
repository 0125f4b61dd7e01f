"""Make the tables of README.md about other machines: with matrix units, with a GPU."""

import statistics
from collections.abc import Sequence

from experiments.tables import markdown

from .plot import measured
from .tables import against, busy, divided, in_range, made_at, split_bf16

AMX = {
    f"amx_{work}_{H}": f"{words}, {H:,} units"
    for work, words in (("training", "training"), ("inference", "forward only"))
    for H in (512, 1024)
}
AGAINST = (
    *("to_gemm_floor", "to_gemm_floor_table", "to_library_floor", "to_nn_lstm_flop_adjusted"),
    "from_inputs_to_gemm_floor",
)


TURNS = (
    *(f"turns_{dtype}_{H}" for dtype in ("fp32", "bf16") for H in (512, 1024)),
    *(f"turns_step_{size}" for size in ("fp32_512", "bf16_512", "bf16_1024")),
)
TURNS_ON_AMX = tuple(
    f"amx_turns_{piece}_{H}" for piece in ("recurrence", "inference", "step") for H in (512, 1024)
)
WINDOWS = {"fused": "a window", "fused_from_inputs": "a window of a deeper layer"}
PIECES = {
    "recurrence": WINDOWS,
    "inference": {kind: f"{window}, forward only" for kind, window in WINDOWS.items()},
    "step": {"step": "a step with Muon"},
}


def matrix_units() -> str:
    """Return our speed on matrix units over the floors' and torch's LSTM's."""
    return against("bf16", AMX, (*AGAINST, "from_inputs_to_library_floor"))


def parts() -> str:
    """Return how the time of a step on matrix units divides."""
    found = {f"amx_parts_{H}": measured(f"amx_parts_{H}") for H in (512, 1024)}
    return divided(["milliseconds of a step, Muon, bf16", "512 units", "1,024 units"], found)


def projecting_few_lanes() -> str:
    """Return the same as `projecting`, of a few lanes."""
    return projecting("amx_projecting_8_lanes")


def projecting(name: str = "amx_projecting") -> str:
    """Return how much faster a window on matrix units is that projects its inputs itself."""
    result = measured(name)
    rows = []
    for size, found in result["sizes"].items():
        units, inputs = (words.split()[0] for words in size.split(", "))
        ratios = (found["ratios"][kind]["median"] for kind in ("training", "forward"))
        rows.append([f"{int(units):,}", f"{int(inputs):,}", *(f"{ratio:.2f}" for ratio in ratios)])
    head = ["units", "inputs of a byte", "training", "forward only"]
    return f"{markdown(head, rows)}\n\n{made_at({name: result})}"


def turns_on_matrix_units() -> str:
    """Return the same as `turns`, on matrix units."""
    return turns(TURNS_ON_AMX)


def split_on_matrix_units() -> str:
    """Return time and error of a product in fp32 as several in bf16, on matrix units."""
    return split_bf16("amx_split_bf16")


def busy_with_matrix_units() -> str:
    """Return the part of the fair share beside busy processes, where there are matrix units."""
    return busy("amx_busy")


def turns(names: Sequence[str] = TURNS) -> str:
    """Return how much faster two later revisions are than an early one, by turns."""
    found = {name: measured(name) for name in names}
    rows = []
    for result in found.values():
        given = result["arguments"]
        for piece, checkouts in result["pieces"].items():
            if piece in PIECES.get(result["piece"], ()):
                ratios = (in_range(one["speed_over_first"], one["range"]) for one in checkouts[1:])
                what = PIECES[result["piece"]][piece]
                rows.append([f"{what}, {given['dtype']}, {given['hidden_size']:,} units", *ratios])
    first, *later = (one["revision"] for one in checkouts)
    return f"{markdown([f'speed over that of {first}', *later], rows)}\n\n{made_at(found)}"


def gpu_floor() -> str:
    """Return our speed on a GPU over the floors' and over that of cuDNN's LSTM."""
    names = {f"gpu_recurrence_{H}": f"training, {H:,} units" for H in (4096, 1024)}
    return against("bf16, 256 lanes of 256 bytes", names, AGAINST)


def gpu() -> str:
    """Return the characters per second of training on a GPU."""
    checked, trained = measured("gpu_check")["step_4096"]["result"], measured("gpu_training")
    speeds = checked["chars_per_second"]
    rows = [
        ["4,096 units, Adam, 256 lanes of 256 bytes: a step", f"{speeds['step']:,.0f}"],
        ["the same, its recurrence alone", f"{speeds['recurrence']:,.0f}"],
    ]
    for lanes, row in trained["lanes"].items():
        found = row["characters_per_second"]
        middle, low, high = statistics.median(found), min(found), max(found)
        name = f"{trained['hidden_size']:,} units, Muon, {lanes} lanes of {trained['window']} bytes"
        rows.append([f"{name}: main.py", f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"])
    found = {"gpu_check.json": checked, "gpu_training.json": trained}
    return f"{markdown(['training in bf16', 'characters/s'], rows)}\n\n{made_at(found)}"
