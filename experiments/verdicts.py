"""What the literature claims about data-parallel training, claim by claim, and what we found.

The verdicts are ours; every number beside them is read from a kept result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from experiments import claims
from experiments.results import HERE
from experiments.scaling.emulated import LARGEST, Results, scaling_of
from experiments.studies import whole_results
from experiments.tables import markdown
from experiments.unequal.tables import speeds_of
from model.files.storage import read_json

Found = Mapping[str, Any]
HEAD = ["claim", "verdict", "number", "figure"]
SCALING = "scaling/results"
FIGURES = "scaling/figures"
EMULATED = f"{SCALING}/emulated.json"
CONVERGENCE = f"{SCALING}/convergence.json"


@dataclass(frozen=True)
class Verdict:
    """A claim of the literature, what we say of it, and the number behind that."""

    claim: str
    verdict: str
    file: str  # of the result, below experiments/
    number: Callable[[Found], str]
    figure: str = ""  # below experiments/


def table() -> str:
    """Return a line for each claim; without its number where the result is absent."""
    return markdown(HEAD, [line(verdict) for verdict in VERDICTS])


def line(verdict: Verdict) -> list[str]:
    """Return a claim's line."""
    path = HERE / verdict.file
    number = verdict.number(read_json(path)) if path.is_file() else "not measured"
    figure = f"[figure]({verdict.figure})" if verdict.figure else "-"
    return [verdict.claim, verdict.verdict, number, figure]


def ours(read: Callable[[Found], claims.Measured]) -> Callable[[Found], str]:
    """Return a function that gives the number of a claim of the large table in words."""
    return lambda found: f"{(m := read(found)).ours} ({m.interval})"


def curve(found: Found) -> str:
    """Return the emulated speed of most GPUs beside the published one."""
    measured = claims.scale_model(found)
    told = f"{measured.ours} times the speed of one"
    return f"{told}; published {measured.published} ({measured.interval})"


def instead(way: str, windows: int, words: str, found: Found) -> str:
    """Return the emulated speed of 2018's exchange, and of another way."""
    results = Results(dict(found))
    ways = (("2018", 1), (way, windows))
    before, after = (scaling_of(results.training(*each)[LARGEST]) for each in ways)
    return f"{LARGEST} GPUs: {before:.1f} times the speed of one, {after:.1f} {words}"


def by_size(found: Found) -> str:
    """Return the seconds of one all-reduce and of the same numbers in many small ones."""
    rows = Results(dict(found)).of("operations")
    nodes = max(row["nodes"] for row in rows)
    first, *_, last = sorted(
        (row for row in rows if row["nodes"] == nodes), key=lambda row: row["operations"]
    )
    return (
        f"{nodes} nodes: {first['seconds']:.2f} s in one piece, "
        f"{last['seconds']:.2f} s in {last['operations']}"
    )


def price(found: Found) -> str:
    """Return the bits that windows between exchanges cost, beside those that lanes cost."""
    base = ended(found, "searched", 16)
    windows, lanes = ended(found, "skipped, square root", 16), ended(found, "square root", 64)
    return f"every 4th {windows - base:+.3f} bits; four times the lanes {lanes - base:+.3f}"


def adasum(found: Found) -> str:
    """Return the bits at 256 lanes by Adasum, and by the best rule for the mean."""
    mean = ended(found, "square root", 256)
    return f"256 lanes: {ended(found, 'adasum', 256):.3f}; the mean, best rule {mean:.3f}"


def rules(found: Found) -> str:
    """Return the bits at 1,024 lanes by the two rules, and at the base."""
    linear, root = (ended(found, rule, 1024) for rule in ("linear", "square root"))
    base = ended(found, "searched", 16)
    return f"1,024 lanes: linear {linear:.2f}, root {root:.2f}; 16 lanes {base:.2f}"


def ended(found: Found, series: str, lanes: int) -> float:
    """Return the fewest bits of a series' whole runs at so many lanes."""
    wanted = (series, lanes, 1)
    runs = (r for r in found["runs"] if (r["series"], r["lanes"], r["part"]) == wanted)
    scores = (run["valid_bits_per_character"] for run in runs)
    return float(min(bits for bits in scores if bits is not None))


def lamb(found: Found) -> str:
    """Return the bits of LAMB at its best rates, alone and under Adasum; Adam's beside them."""

    def best(names: str) -> str:
        runs = whole_results("lamb", names).values()
        bits = [run["valid_bits_per_character"] for run in runs]
        return f"{min(bits):.3f}" if bits else "not measured"

    return (
        f"256 lanes {best('lanes_256_*')} (Adam {best('adam_256_*')}), with Adasum "
        f"{best('adasum_256_*')} (Adam {best('adam_adasum_256_*')}); "
        f"1,024 lanes {best('lanes_1024_*')} (Adam {best('adam_1024_*')})"
    )


def unequal(found: Found) -> str:
    """Return the speeds with measured over those with even shares, by the slower rank's part."""
    words = []
    for part in found["settings"]["parts"]:
        even, measured = (median(speeds_of(found, part, way)) for way in ("even", "measured"))
        words.append(f"{measured / even:.2f} if the slower rank has {part:g} of a core")
    return f"speed with measured shares over even shares: {', '.join(words)}"


VERDICTS = (
    Verdict("128 GPUs by Ethernet do the work of 92.6 (Puri et al. 2018)",
            "explained by bandwidth, given 17 h of computing and a ring through all GPUs",
            EMULATED, curve, f"{FIGURES}/emulated.png"),
    Verdict("Buckets sent during backward hide the exchange (S. Li et al. 2020, DDP)",
            "holds for the greater part once the gates' gradients come one by one; plain "
            "back-propagation through time gives all of them at its end", EMULATED,
            partial(instead, "today", 1, "as the gradients come"), f"{FIGURES}/emulated.png"),
    Verdict("Small all-reduces waste the link",
            "not testable here: the time is that of two cores waking the processes", EMULATED,
            by_size, f"{FIGURES}/emulated.png"),
    Verdict("Exchanging in every fourth step saves most of the exchange", "holds for speed",
            EMULATED, partial(instead, "2018", 4, "with every 4th"), f"{FIGURES}/emulated.png"),
    Verdict("... and costs little", "it costs about as much as four times the lanes",
            CONVERGENCE, price, f"{FIGURES}/convergence.png"),
    Verdict("Threads of one process do not speed recurrent networks up (Puri et al. 2018)",
            "holds for a loop over bytes of 64 units, hardly of 512; we did not vary the "
            "interpreter's lock",
            f"{SCALING}/interpreter.json", ours(claims.two_replicas), f"{FIGURES}/interpreter.png"),
    Verdict("fp16 costs no accuracy (Puri et al. 2018)",
            "holds within the difference that another seed makes",
            f"{SCALING}/precision.json", ours(claims.mixed_precision), f"{FIGURES}/precision.png"),
    Verdict("Unequal machines should share by speed (HetSeq, Ding et al. 2021)",
            "holds against even shares; the fast one alone may still be faster",
            "unequal/results/throttled.json", unequal),
    Verdict("Transient servers: a run outlives its machines (CM-DARE, Li et al. 2020)", "holds",
            "elastic/results/faults.json", ours(claims.faults)),
    Verdict("Adasum prevents what large batches lose, at an unscaled rate (Maleki et al. 2020)",
            "holds in part: it prevents about half of what the best rule loses", CONVERGENCE,
            adasum, f"{FIGURES}/convergence.png"),
    Verdict("LAMB trains large batches (You et al. 2020), and better under Adasum",
            "fails here against Adam; Adasum lowers its bits",
            "lamb/results/lanes_256_2e-2_seed_0.json", lamb),
    Verdict("The rate follows the batch linearly (Goyal et al. 2017)",
            "with Adam, for which it was not made: level with the root at 4 times the batch, does "
            "not train at 64 times", CONVERGENCE, rules,
            f"{FIGURES}/convergence.png"),
    Verdict("A step's seconds can be regressed on a few features (CM-DARE, Li et al. 2020)",
            "poorly, from so few runs", f"{SCALING}/regressed.json", ours(claims.regressed)),
)  # fmt: skip
