"""List all claims in one table: the published value, ours, and the command that measures it.

The numbers come from the results; none is written here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from data_utils.published_sets.registry import SETS, PublishedSet, Row
from experiments.finetuning.table import main_measures
from experiments.overview import FINETUNING, PLAIN, REPRODUCTION, published_bits
from experiments.reproduction.table import number, one, quoted, title
from experiments.results import HERE, Result, result_of
from experiments.scaling.emulation.report import LARGEST
from experiments.scaling.emulation.results import Results, scaling_of
from experiments.scaling.readings import GPUS, SCALING
from experiments.tables import markdown
from model.files.storage import read_json

NORMAL = 1.96  # standard errors of a 95 % interval
HEAD = ["claim", "published", "ours", "interval", "command", "minutes", "revision"]


@dataclass(frozen=True)
class Measured:
    """The number of a claim, and its interval: of 95 % unless it says otherwise."""

    ours: str
    interval: str = "-"
    published: str = "-"


@dataclass(frozen=True)
class Claim:
    """What is claimed, and how a result gives its number."""

    what: str
    file: str  # of the result, below experiments/
    read: Callable[[Mapping[str, Any]], Measured]


def table() -> str:
    """Return the table of all claims."""
    return markdown(HEAD, [line(claim) for claim in (*transfer(), *CLAIMS)])


def line(claim: Claim) -> list[str]:
    """Return the row of a claim; without a result, only the published values."""
    result, path = result_of(claim.file), HERE / claim.file
    found = claim.read(read_json(path) if path.is_file() else {})
    minutes = "-" if result.minutes is None else f"{result.minutes:.1f}"
    cells = [claim.what, found.published, found.ours, found.interval]
    return [*cells, f"`{result.command}`", minutes, revisions(result)]


def revisions(result: Result) -> str:
    """Return the revisions of a result, or its state if there are none."""
    words = ", ".join(f"`{name}`" for name in result.revisions)
    return words or result.state


def transfer() -> Iterator[Claim]:
    """Yield a claim for each row of the published sets that has a published or a measured value."""
    for name, entry in SETS.items():
        file = REPRODUCTION / f"{name}.json"
        for row in entry.rows:
            if file.is_file() or any(p.row == row.name for p in entry.published):
                words = f"{title(name)}, {row.title}, frozen features"
                yield Claim(words, file.relative_to(HERE).as_posix(), reading(entry, row))


def reading(entry: PublishedSet, row: Row) -> Callable[[Mapping[str, Any]], Measured]:
    """Return the function that reads a row of a set from its result."""

    def read(found: Mapping[str, Any]) -> Measured:
        values = [quoted(vars(p), row.measure) for p in entry.published if p.row == row.name]
        published = ", ".join(values) or "-"
        if not found:
            return Measured("-", published=published)
        cell = number(found[row.of], row.measure)
        return Measured(one(cell["value"], row.measure), ends(cell, row.measure), published)

    return read


def ends(cell: Mapping[str, Any], measure: str = "accuracy") -> str:
    """Return the text of an interval."""
    low, high = (one(end, measure) for end in cell["interval"])
    return f"{low} to {high}"


def bits(found: Mapping[str, Any]) -> Measured:
    """Return bits per character of the held-out reviews."""
    value, margin = found["bits_per_character"], NORMAL * found["standard_error"]
    published = f"{published_bits(1024):.3f} (1,024 units, on training text)"
    return Measured(f"{value:.3f}", f"{value - margin:.3f} to {value + margin:.3f}", published)


def fine_tuned(task: str) -> Callable[[Mapping[str, Any]], Measured]:
    """Return the function that reads the main measure of the fine-tuned model."""

    def read(found: Mapping[str, Any]) -> Measured:
        study = main_measures(FINETUNING)[task]
        cell = study["ours"]["learned"]
        published = ", ".join(f"{one(v, '')} ({name})" for name, v in study["published"].items())
        return Measured(one(cell["value"], ""), ends(cell), published)

    return read


def best_unit(found: Mapping[str, Any]) -> Measured:
    """Return the accuracy of one unit."""
    accuracy, interval = found["alone"]["test_accuracy"], found["alone"]["test_interval"]
    return Measured(one(accuracy, ""), ends({"interval": interval}))


def recited(found: Mapping[str, Any]) -> Measured:
    """Return how many prompts the model continues exactly as the review does."""
    return Measured(f"{found['train']['exact']} of {found['train']['prompts']:,}")


def tour(found: Mapping[str, Any]) -> Measured:
    """Return the accuracy of all units."""
    return Measured(one(found["test_accuracy"], ""), ends({"interval": found["test_interval"]}))


def performance_model(found: Mapping[str, Any]) -> Measured:
    """Return the speed of 128 GPUs that the fitted model predicts."""
    predicted = ", ".join(f"{curve[-1]:.1f}" for curve in found["predicted"].values())
    published = ", ".join(f"{curve[-1]:.1f}" for curve in SCALING.values())
    return Measured(predicted, f"{found['worst_error']:.1%} off at worst", published)


def scale_model(found: Mapping[str, Any]) -> Measured:
    """Return the speed of the largest emulated cluster."""
    row = Results(found).training("2018", 1)[LARGEST]
    low, high = (scaling_of(row, row[end]) for end in ("slowest", "fastest"))
    published = f"{dict(zip(GPUS, SCALING['ethernet_4096'], strict=True))[LARGEST]:.1f}"
    spread = f"{low:.1f} to {high:.1f}, {row['runs']} runs" if row["runs"] > 1 else "1 run"
    return Measured(f"{scaling_of(row):.1f}", spread, published)


def mixed_precision(found: Mapping[str, Any]) -> Measured:
    """Return the bits of fp16 minus those of fp32."""
    ended = {run["name"]: run["valid_bits_per_character"] for run in found["runs"]}
    seeds = max(abs(ended[f"fp32_seed_{seed}"] - ended["fp32"]) for seed in (1, 2))
    theirs = published_bits(4096, "fp16") - published_bits(4096, "fp32")
    ours = ended["fp16"] - ended["fp32"]
    return Measured(f"{ours:+.3f}", f"a seed is worth {seeds:.3f}", f"{theirs:.3f}")


def two_replicas(found: Mapping[str, Any]) -> Measured:
    """Return the speed of two replicas of 64 units in a loop over bytes: threads, processes."""
    wanted = ("reference", 64, 2)
    cases = {
        case["how"]: case
        for case in found["cases"]
        if (case["backend"], case["hidden_size"], case["replicas"]) == wanted
    }
    both = [cases[how] for how in ("threads", "processes")]
    ranges = [" to ".join(f"{end:.2f}" for end in case["speedup_range"]) for case in both]
    one_gpu, *eight = (
        found["published"][way][count]
        for way, count in (
            ("a process per GPU, V100", "1"),
            ("threads of one process (DataParallel)", "8"),
            ("a process per GPU, V100", "8"),
        )
    )
    return Measured(
        ", ".join(f"{case['speedup']:.2f}" for case in both),
        f"{', '.join(ranges)}, all rounds",
        f"{', '.join(eight)} against {one_gpu} of one (8 GPUs, thousand characters/s)",
    )


def largest_rate(found: Mapping[str, Any]) -> Measured:
    """Return the bits at 1,024 lanes by the linear and by the square-root rule."""
    ended = {run["name"]: run["valid_bits_per_character"] for run in found["runs"]}
    return Measured(", ".join(f"{ended[f'{rule}_1024']:.2f}" for rule in ("linear", "square_root")))


def regressed(found: Mapping[str, Any]) -> Measured:
    """Return the error of the best kind of regression."""
    errors = {kind["kind"]: kind["mean_absolute_percentage_error"] for kind in found["kinds"]}
    best = min(errors, key=errors.__getitem__)
    return Measured(f"{100 * errors[best]:.0f} ({best})", f"{len(found['runs'])} runs")


def replayed(found: Mapping[str, Any]) -> Measured:
    """Return the largest error of a step."""
    errors = [abs(row["error"]) for row in found["rows"]]
    return Measured(f"{100 * max(errors):.1f}", f"{len(errors)} ways")


def fitted(found: Mapping[str, Any]) -> Measured:
    """Return the largest error of a fitted point."""
    return Measured(f"{100 * found['worst_error']:.0f}", f"{found['fitted_points']} points fitted")


def ratio(name: str) -> Callable[[Mapping[str, Any]], Measured]:
    """Return the function that reads a ratio of the benchmark, with its range over the rounds."""

    def read(found: Mapping[str, Any]) -> Measured:
        low, high = found["ratio_ranges"][name]
        return Measured(f"{found['ratios'][name]:.2f}", f"{low:.2f} to {high:.2f}, all turns")

    return read


def race(found: Mapping[str, Any]) -> Measured:
    """Return the seconds to the target."""
    summary = read_json(HERE / "time_to_target/results/summary.json")
    return Measured(
        f"{summary['ours']['seconds']:.0f}", "one seed", f"{summary['published']['seconds']:.0f}"
    )


def recipe(found: Mapping[str, Any]) -> Measured:
    """Return the final bits of the recipe, and of Adam at its best rate."""
    folder = HERE / "recipe/results"
    named = [f"muon_1e-2{end}" for end in ("", "_seed_1", "_seed_2")]
    seeds = [read_json(folder / f"{name}.json")["valid_bits_per_character"] for name in named]
    best = min(read_json(path)["valid_bits_per_character"] for path in folder.glob("adam_*.json"))
    return Measured(
        f"{seeds[0]:.3f}; Adam at its best rate {best:.3f}",
        f"{min(seeds):.3f} to {max(seeds):.3f}, three seeds",
    )


def pandas(found: Mapping[str, Any]) -> Measured:
    """Return the speed of two processes on JSON lines over that of pandas."""
    return Measured(f"{found['ratios']['pandas / ours, plain, 2 processes']:.2f}")


def waited(found: Mapping[str, Any]) -> Measured:
    """Return the largest part of the time that training waits for data."""
    return Measured(f"{100 * max(row['waited'] for row in found['rows']):.2f}")


def padding(found: Mapping[str, Any]) -> Measured:
    """Return the speed over batches that are padded to their longest text."""
    cell = found["ratios"]["padded_sorted"]
    return Measured(f"{cell['median']:.2f}", f"{cell['low']:.2f} to {cell['high']:.2f}, all turns")


def exposed(found: Mapping[str, Any]) -> Measured:
    """Return the exposed seconds of the fp16 exchange of 2018 and of today."""
    seconds = {(row["profile"], row["way"]): row["exposed_seconds"] for row in found["rows"]}
    ways = ("fp16, flat (2018)", "fp16")
    return Measured(", ".join(f"{seconds['one by one', way]:.3f}" for way in ways))


def faults(found: Mapping[str, Any]) -> Measured:
    """Return the number of faults, and the longest recovery."""
    longest = max(fault["seconds"] for fault in found["faults"])
    return Measured(f"{len(found['faults'])}", f"whole again after {longest:.0f} s at most")


def by_peer(found: Mapping[str, Any]) -> Measured:
    """Return what the cells end at, each at its better rate."""
    ended: dict[str, float] = {}
    for path in (HERE / "peers" / "results").glob("*.json"):
        bits = read_json(path)["valid_bits_per_character"]
        cell = path.stem.partition("_")[0]
        ended[cell] = min(bits, ended.get(cell, bits))
    order = sorted(ended, key=ended.__getitem__)
    return Measured(", ".join(f"{cell} {ended[cell]:.3f}" for cell in order))


def best_feature(found: Mapping[str, Any]) -> Measured:
    """Return what the features that are best on val are worth on SST's test set."""
    rows = found["sets"]["sst"]["rows"] if found else []
    best = max(rows, key=lambda row: row["val_accuracy"], default=None)
    return accuracy_of(best) if best else Measured("-")


def titles(found: Mapping[str, Any]) -> Measured:
    """Return what the expected titles tell of SST without any label."""
    return accuracy_of(found["sets"]["sst"]["titles"]["at_median"]) if found else Measured("-")


def accuracy_of(row: Mapping[str, Any]) -> Measured:
    """Return a test accuracy."""
    return Measured(one(row["test_accuracy"], ""), ends({"interval": row["test_interval"]}))


def held(found: Mapping[str, Any]) -> Measured:
    """Return how many texts are positive with the unit held low, and held high."""
    rows = sorted((row for row in found["rows"] if "value" in row), key=lambda r: r["value"])
    shares = [f"{100 * row['positive']:.0f}" for row in (rows[0], rows[-1])]
    return Measured(" and ".join(shares), f"{rows[0]['texts']} texts each")


CLAIMS = (
    Claim("Amazon reviews, bits per character", f"shipped/results/bits_{PLAIN}.json", bits),
    Claim("the model recites reviews it has read: 50 bytes after 50",
          f"shipped/results/memorization_{PLAIN}.json", recited),
    Claim("SST, fine-tuned, accuracy", f"finetuning/results/{PLAIN}/sst_learned.json",
          fine_tuned("sst")),
    Claim("SemEval E-c, fine-tuned, mean F1 of 8 emotions",
          f"finetuning/results/{PLAIN}/semeval_learned.json", fine_tuned("semeval")),
    Claim("SST by one unit of the model that has seen labels",
          "neuron/results/sentiment_1024/neuron.json", best_unit),
    Claim("SST by the unit of largest weight, no labels before",
          f"neuron/results/{PLAIN}/neuron.json", best_unit),
    Claim("the tour's reviews, accuracy", "tour/results/transfer.json", tour),
    Claim("512 units, 44 M characters: SST", "main_job/results/sst.json", tour),
    Claim("128 GPUs, times one: 4,096 units by Ethernet, by InfiniBand, 8,192; fitted",
          "scaling/results/published.json", performance_model),
    Claim(f"{LARGEST} GPUs by Ethernet, times one: a scale model, nothing fitted",
          "scaling/results/emulated.json", scale_model),
    Claim("fp16 less fp32, bits per character", "scaling/results/precision.json",
          mixed_precision),
    Claim("two replicas, times one: threads of one process, processes",
          "scaling/results/interpreter.json", two_replicas),
    Claim("64 times the lanes, rate raised linearly, by the root: bits per character",
          "scaling/results/convergence.json", largest_rate),
    Claim("step time regressed on a few features: mean error, per cent",
          "scaling/results/regressed.json", regressed),
    Claim("exposed exchange predicted: worst error, per cent of the step",
          "scaling/results/replayed.json", replayed),
    Claim("performance model fitted to this machine: worst error, per cent",
          "scaling/results/measured_gloo.json", fitted),
    Claim("speed of the recurrence to the loop of 2018, fp32, 1,024 units",
          "recurrence/results/training_fp32_1024.json", ratio("to_loop_2018")),
    Claim("speed of the recurrence to its products alone, fp32, 1,024 units",
          "recurrence/results/training_fp32_1024.json", ratio("to_gemm_floor")),
    Claim("seconds to the bits that the published recipe has after 12 M characters",
          "time_to_target/results/published_12000000.json", race),
    Claim("bits per character of 512 units after 6 M characters",
          "recipe/results/muon_1e-2.json", recipe),
    Claim("reading JSON lines, speed to pandas", "data/results/speed.json", pandas),
    Claim("waiting for data, per cent of the time", "data/results/stream.json", waited),
    Claim("featurizing IMDB, speed to padded batches sorted by length",
          "featurizing/results/imdb.json", padding),
    Claim("seconds of an exchange that compute does not hide: at once in the end, as it comes",
          "exchange/results/replay.json", exposed),
    Claim("faults of machines and links that a run survives", "elastic/results/faults.json",
          faults),
    Claim("half a million parameters, 6 M characters, by cell: bits per character",
          "peers/results/mlstm_1e-2_seed_0.json", by_peer),
    Claim("SST by the features of amazon_1024 that are best on val",
          "features/results/amazon_1024.json", best_feature),
    Claim("SST without any label, by the titles that amazon_1024 expects",
          "features/results/amazon_1024.json", titles),
    Claim("texts that a judge calls positive, the unit held low and high, per cent",
          "generation/results/sentiment_1024.json", held),
)  # fmt: skip
