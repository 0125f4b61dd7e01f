"""What the literature claims of data-parallel training, one by one, and what came of it here.

The verdicts are ours; every number beside them is read from a kept result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from experiments import claims
from experiments.results import HERE
from experiments.scaling.emulation.report import LARGEST
from experiments.scaling.emulation.results import Results, scaling_of
from experiments.tables import markdown
from model.files.storage import read_json

HEAD = ["claim", "verdict", "number", "figure"]
SCALING = "scaling/results"
EMULATED = f"{SCALING}/emulated.json"
CONVERGENCE = f"{SCALING}/convergence.json"


@dataclass(frozen=True)
class Verdict:
    """A claim of the literature, what we say of it, and the number behind that."""

    claim: str
    verdict: str
    file: str  # of the result, below experiments/
    number: Callable[[Mapping[str, Any]], str]
    figure: str = ""  # below experiments/


def table() -> str:
    """Return a line for each claim; of one whose result is absent, no number."""
    return markdown(HEAD, [line(verdict) for verdict in VERDICTS])


def line(verdict: Verdict) -> list[str]:
    """Return a claim's line."""
    path = HERE / verdict.file
    number = verdict.number(read_json(path)) if path.is_file() else "not measured"
    figure = f"[figure]({verdict.figure})" if verdict.figure else "-"
    return [verdict.claim, verdict.verdict, number, figure]


def ours(read: Callable[[Mapping[str, Any]], claims.Measured]) -> Callable[..., str]:
    """Return how the number of a claim of the large table reads here."""
    return lambda found: f"{(m := read(found)).ours} ({m.interval})"


def curve(found: Mapping[str, Any]) -> str:
    """Return the emulated speed of most GPUs beside the published one."""
    measured = claims.scale_model(found)
    return f"{measured.ours} times one; published {measured.published} ({measured.interval})"


def today(found: Mapping[str, Any]) -> str:
    """Return what buckets during backward make of the published speed."""
    results = Results(dict(found))
    before, after = (scaling_of(results.training(way, 1)[LARGEST]) for way in ("2018", "today"))
    return f"{LARGEST} GPUs: {before:.1f} times one, {after:.1f} as the gradients come"


def by_size(found: Mapping[str, Any]) -> str:
    """Return the seconds of one all-reduce and of the same numbers in many small ones."""
    rows = Results(dict(found)).of("operations")
    nodes = max(row["nodes"] for row in rows)
    of_nodes = sorted((row for row in rows if row["nodes"] == nodes), key=lambda r: r["operations"])
    first, last = of_nodes[0], of_nodes[-1]
    return (
        f"{nodes} nodes: {first['seconds']:.2f} s in one piece, "
        f"{last['seconds']:.2f} s in {last['operations']}"
    )


def skipped(found: Mapping[str, Any]) -> str:
    """Return what exchanging every fourth window makes of the speed."""
    results = Results(dict(found))
    each, fourth = (scaling_of(results.training("2018", k)[LARGEST]) for k in (1, 4))
    return f"{LARGEST} GPUs: {each:.1f} times one, {fourth:.1f} with every 4th"


def price(found: Mapping[str, Any]) -> str:
    """Return the bits that windows between exchanges cost, beside those that lanes cost."""
    base = ended(found, "searched", 16)
    windows, lanes = ended(found, "skipped, square root", 16), ended(found, "square root", 64)
    return f"every 4th {windows - base:+.3f} bits; four times the lanes {lanes - base:+.3f}"


def adasum(found: Mapping[str, Any]) -> str:
    """Return the bits at 256 lanes by Adasum, and by the best rule for the mean."""
    mean = ended(found, "square root", 256)
    return f"256 lanes: {ended(found, 'adasum', 256):.3f}; the mean, best rule {mean:.3f}"


def rules(found: Mapping[str, Any]) -> str:
    """Return the bits at 1,024 lanes by the two rules, and at the base."""
    linear, root = (ended(found, rule, 1024) for rule in ("linear", "square root"))
    return f"1,024 lanes: linear {linear:.2f}, root {root:.2f}; 16 lanes {base_of(found):.2f}"


def base_of(found: Mapping[str, Any]) -> float:
    """Return the bits of 16 lanes at the best rate."""
    return ended(found, "searched", 16)


def ended(found: Mapping[str, Any], series: str, lanes: int) -> float:
    """Return the fewest bits of a series' whole runs at so many lanes."""
    return float(
        min(
            run["valid_bits_per_character"]
            for run in found["runs"]
            if (run["series"], run["lanes"], run["part"]) == (series, lanes, 1)
            and run["valid_bits_per_character"] is not None
        )
    )


def lamb(found: Mapping[str, Any]) -> str:
    """Return the bits of LAMB at its best rates, alone and under Adasum; Adam's beside them."""
    folder = HERE / "lamb" / "results"
    best = {
        name: min(
            read_json(path)["valid_bits_per_character"] or float("inf")
            for path in folder.glob(f"{name}_*.json")
        )
        for name in ("lanes_256", "lanes_1024", "adasum_256")
    }
    adam = read_json(HERE / CONVERGENCE)
    return (
        f"256 lanes {best['lanes_256']:.3f}, with Adasum {best['adasum_256']:.3f} (Adam "
        f"{ended(adam, 'square root', 256):.3f}); 1,024 lanes {best['lanes_1024']:.3f} "
        f"(Adam {ended(adam, 'square root', 1024):.3f})"
    )


def unequal(found: Mapping[str, Any]) -> str:
    """Return the speeds with even and with measured shares, by the slower rank's part."""
    runs = found["runs"]
    words = []
    for part in found["settings"]["parts"]:
        speeds = [
            median(
                run["characters_per_second"]
                for run in runs
                if (run.get("part"), run.get("way")) == (part, way)
            )
            for way in ("even", "measured")
        ]
        words.append(f"{speeds[1] / speeds[0]:.2f} times at {part:g}")
    return f"measured shares to even ones: {', '.join(words)} of the other's core"


VERDICTS = (
    Verdict("128 GPUs by Ethernet do the work of 92.6 (Puri et al. 2018)",
            "explained: bandwidth alone gives the curve", EMULATED, curve, "scaling/emulated.png"),
    Verdict("Buckets sent during backward hide the exchange (Li et al. 2020)",
            "holds once the gates' gradients come one by one; plain back-propagation through time "
            "gives all of them at its end", EMULATED, today, "scaling/emulated.png"),
    Verdict("Small all-reduces waste the link", "holds, and grows with the nodes", EMULATED,
            by_size, "scaling/emulated.png"),
    Verdict("Exchanging in every fourth step saves most of the exchange", "holds for speed",
            EMULATED, skipped, "scaling/emulated.png"),
    Verdict("... and costs little", "it costs what as many more lanes cost", CONVERGENCE, price,
            "scaling/convergence.png"),
    Verdict("Threads of one process do not speed recurrent networks up (Puri et al. 2018)",
            "holds for a loop over bytes; the interpreter's lock is the cause",
            f"{SCALING}/interpreter.json", ours(claims.two_replicas), "scaling/interpreter.png"),
    Verdict("fp16 costs no accuracy (Puri et al. 2018)", "holds within what a seed is worth",
            f"{SCALING}/precision.json", ours(claims.mixed_precision), "scaling/precision.png"),
    Verdict("Unequal machines should share by speed (HetSeq, Ding et al. 2021)",
            "holds; the gain grows with the difference", "unequal/results/throttled.json", unequal),
    Verdict("Transient servers: a run outlives its machines (Li et al. 2020)", "holds",
            "elastic/results/faults.json", ours(claims.faults)),
    Verdict("Adasum keeps what large batches lose, at an unscaled rate (Maleki et al. 2020)",
            "holds in part: about half of the loss is kept", CONVERGENCE, adasum,
            "scaling/convergence.png"),
    Verdict("LAMB trains large batches (You et al. 2020), and better under Adasum",
            "open", "lamb/results/lanes_256_4e-2_seed_0.json", lamb),
    Verdict("The rate follows the batch linearly (Goyal et al. 2017)",
            "fails at 64 times the batch; the square root is better", CONVERGENCE, rules,
            "scaling/convergence.png"),
    Verdict("A step's seconds can be regressed on a few features (CM-DARE, Li et al. 2020)",
            "poorly, from so few runs", f"{SCALING}/regressed.json", ours(claims.regressed)),
)  # fmt: skip
