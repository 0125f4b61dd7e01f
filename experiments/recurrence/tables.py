"""Make the tables of README.md and docs/speed.md."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from experiments.tables import markdown, origins, percent

from .plot import LINES, measured, of_the_floor, points
from .precisions import BATCH, LONGEST
from .run import PROFILED

SIZES = {f"{dtype}_{H}": f"{dtype}, {H:,} units" for dtype in ("fp32", "bf16") for H in (512, 1024)}
TRAINING = {
    "to_gemm_floor": "floor",
    "to_gemm_floor_table": "tighter floor",
    "to_loop_2018": "loop of 2018",
    "to_reference": "reference",
    "to_nn_lstm_flop_adjusted": "nn.LSTM, equal operations",
    "to_compile": "compile",
}
RATIOS = {
    **TRAINING,
    "to_library_floor": "libraries' floor",
    "from_inputs_to_gemm_floor": "a deeper layer, to the floor",
    "from_inputs_to_library_floor": "a deeper layer, to the libraries' floor",
}
TOLD = ("time", "error")
FASTER = ("bf16, times as fast", "int8, times as fast")
SETS = {"test": "SST's test set", "imdb_test": "some of IMDB's test set"}
CHANGED = [
    *("`default`", "texts", "characters", "right, per cent"),
    *("labels changed", "largest change", "median change"),
]
FORWARD = ("to_gemm_floor", "to_gemm_floor_table", "to_nn_lstm_flop_adjusted")


def training() -> str:
    """Return our speed in training over that of every contender."""
    names = {f"training_{size}": words for size, words in SIZES.items()}
    return against("training", names, tuple(TRAINING))


def forward() -> str:
    """Return our speed in the forward pass over that of every contender."""
    names = {f"inference_{size}": words for size, words in SIZES.items()}
    return against("forward only", names, FORWARD)


def against(
    title: str, names: dict[str, str], ratios: Sequence[str], said: str = "", *, ranges: bool = True
) -> str:
    """Return a row for each result: characters per second, and ratios; then words and revisions.

    ranges: whether the ratios stand with their lowest and highest round.
    """
    found = {name: measured(name) for name in names}
    rows = [
        [names[name], f"{result['chars_per_second']['fused']:,.0f}", *cells(result, ratios, ranges)]
        for name, result in found.items()
    ]
    head = [title, "characters/s", *(RATIOS[ratio] for ratio in ratios)]
    return f"{markdown(head, rows)}\n\n{said}{made_at(found)}"


def cells(result: dict[str, Any], ratios: Sequence[str], ranges: bool) -> list[str]:
    """Return ratios; an empty cell where a ratio was not measured."""
    told = {r: with_range(result, r) if ranges else f"{v:.2f}" for r, v in result["ratios"].items()}
    return [told.get(ratio, "") for ratio in ratios]


def with_range(result: dict[str, Any], ratio: str) -> str:
    """Return a ratio with its lowest and highest round."""
    low, high = result["ratio_ranges"][ratio]
    return in_range(result["ratios"][ratio], (low, high))


def in_range(value: float, ends: Sequence[float]) -> str:
    """Return a ratio with its lowest and highest round."""
    return f"{value:.2f} ({ends[0]:.2f} to {ends[1]:.2f})"


def made_at(found: dict[str, Any]) -> str:
    """Name the revisions of results."""
    return origins({f"{name}.json": result for name, result in found.items()})


def from_inputs() -> str:
    """Return our speed as a deeper layer, whose inputs are vectors, and the memory for backward."""
    rows = []
    for size, words in SIZES.items():
        result = measured(f"training_{size}")
        ratio = with_range(result, "from_inputs_to_gemm_floor")
        rows.append([words, ratio, f"{result['saved_over_least']:.2f}"])
    return markdown(["training", "a deeper layer, to the floor", "saved over least"], rows)


def steps() -> str:
    """Return the speed of a whole training step over that of its recurrence."""
    found = {f"step_{dtype}_1024": measured(f"step_{dtype}_1024") for dtype in ("fp32", "bf16")}
    rows = [
        [
            f"{result['options']['dtype']}, {result['options']['hidden_size']:,} units",
            f"{result['chars_per_second']['step']:,.0f}",
            with_range(result, "step_to_recurrence"),
        ]
        for result in found.values()
    ]
    head = ["a whole training step", "characters/s", "speed relative to its recurrence alone"]
    return f"{markdown(head, rows)}\n\n{made_at(found)}"


def parts() -> str:
    """Return how the time of a step divides, in fp32 and in bf16."""
    found = {f"parts_{dtype}_{H}": measured(f"parts_{dtype}_{H}") for dtype, H in PROFILED}
    head = ["milliseconds of a step, Muon", *(f"{dtype}, {H:,}" for dtype, H in PROFILED)]
    result = found["parts_bf16_512"]
    cores = result["origin"]["hardware"]["cores"]
    return divided(head, found, f"On {cores} cores of {words_of(result)}. ")


def divided(head: Sequence[str], found: dict[str, dict[str, Any]], said: str = "") -> str:
    """Return the milliseconds of each part of a step, its speed, then words and revisions."""
    spans = [result["parts"]["milliseconds"] for result in found.values()]
    rows = [[name, *(f"{span[name]:,.1f}" for span in spans)] for name in spans[0]]
    speeds = [f"{result['chars_per_second']['step']:,.0f}" for result in found.values()]
    rows.append(["characters/s, not profiled", *speeds])
    return f"{markdown(head, rows)}\n\n{said}{made_at(found)}"


def words_of(result: dict[str, Any]) -> str:
    """Name the processor of a result, and its instructions for bf16."""
    hardware = result["origin"]["hardware"]
    return f"{hardware['processor']}, {', '.join(hardware['bf16_instructions'])}"


def split_bf16(name: str = "split_bf16") -> str:
    """Return time and error of a product in fp32 as several in bf16."""
    found = measured(name)
    names = next(iter(found["sizes"].values()))["relative_time"]
    head = ["m W_h, 128 lanes", *(f"{H} units: {of}" for H in found["sizes"] for of in TOLD)]
    rows = []
    for name in names:
        sizes = found["sizes"].values()
        pairs = ((f"{s['relative_time'][name]:.2f}", f"{s['error'][name]:.0e}") for s in sizes)
        rows.append([name, *chain.from_iterable(pairs)])
    return f"{markdown(head, rows)}\n\n{made_at({name: found})}"


def precisions() -> str:
    """Return how much faster inference is in fewer bits, and what it changes."""
    found = measured("precisions")
    head = [
        "time to read one more byte of each text, on one core",
        *(f"{name}, microseconds" for name in found["classify"]),
        *FASTER,
    ]
    rows = [
        [f"{int(H):,} units, {lanes} {'text' if lanes == '1' else 'texts'}", *times(spent)]
        for H, sizes in found["microseconds"].items()
        for lanes, spent in sizes.items()
    ]
    name = (
        f"`classify`, time per character, for {BATCH} texts of at most {LONGEST} characters read "
        "together"
    )
    rows.append([name, *times(found["classify"])])
    changed = [
        [
            f"{SETS[name]}, {precision}",
            f"{changes['texts']:,}",
            f"{changes['characters']:,}",
            percent(changes["accuracy"]),
            f"{changes['changed']}",
            f"{changes['largest']:.3f}",
            f"{changes['median']:.4f}",
        ]
        for name, sets in found["agreement"].items()
        for precision, changes in sets.items()
    ]
    return (
        f"{markdown(head, rows)}\n\n{markdown(CHANGED, changed)}\n\n"
        f"On {words_of(found)}. {made_at({'precisions': found})}"
    )


def many_texts() -> str:
    """Return how long one core takes to classify a million texts, by precision."""
    found = measured("precisions")
    million = f"a million texts of {LONGEST} characters"
    hours = [f"{value * LONGEST / 3600:.1f} h" for value in found["classify"].values()]
    table = markdown(["`classify`, one core", *found["classify"]], [[million, *hours]])
    return f"{table}\n\nOn {words_of(found)}. {made_at({'precisions': found})}"


def times(microseconds: dict[str, float]) -> list[str]:
    """Return times by precision, then how many times as fast as fp32 the others are."""
    factors = [microseconds["fp32"] / value for value in microseconds.values()][1:]
    return [
        *(f"{value:,.1f}" for value in microseconds.values()),
        *(f"{factor:.1f}" for factor in factors),
    ]


def busy(name: str = "busy") -> str:
    """Return the part of the fair share that we reach beside busy processes."""
    result = measured(name)
    speeds = result["chars_per_second"]
    rows = [
        [
            work,
            f"{speeds[f'{work} alone']:,.0f}",
            f"{speeds[f'{work}_without alone']:,.0f}",
            with_range(result, work),
            with_range(result, f"{work}_without"),
        ]
        for work in ("train", "classify", "featurize")
    ]
    head = ["work", "alone, characters/s", "without, alone", "of the fair share", "without"]
    return f"{markdown(head, rows)}\n\n{made_at({name: result})}"


def sweep() -> str:
    """Return the speed of every contender over that of the floor, by H, B and T."""
    rows = []
    for sizes, result in sorted(points().items()):
        shares = (of_the_floor(result, name) for name in LINES)
        cells = ("-" if share is None else f"{share:.2f}" for share in shares)
        rows.append([*map(str, sizes), f"{result['chars_per_second']['fused']:,.0f}", *cells])
    head = ["H", "B", "T", "ours, characters/s", *(words for words, _ in LINES.values())]
    found = {name: measured(name) for name in ("sweep_128_128_256", "sweep_2048_128_64")}
    return f"{markdown(head, rows)}\n\n{made_at(found)}"


def first_page() -> str:
    """Return the rows for docs/speed.md, without ranges."""
    names = {
        "training_fp32_512": "training, fp32, 512 units",
        "training_fp32_1024": "training, fp32, 1,024 units",
        "training_bf16_1024": "training, bf16, 1,024 units",
        "inference_fp32_512": "forward only, fp32, 512 units",
    }
    shown = [ratio for ratio in TRAINING if ratio != "to_reference"]
    step = measured("step_fp32_1024")["ratios"]["step_to_recurrence"]
    said = (
        f"A whole training step reaches {step:.2f} of the speed of its recurrence alone "
        "(1,024 units, fp32). "
    )
    return against("", names, shown, said, ranges=False)
