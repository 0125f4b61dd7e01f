"""List all claims in one table: the published value, ours, and the command that measures it.

The numbers come from the results; none is written here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median
from typing import Any

from data_utils.published_sets.registry import SETS, Row
from experiments.features.tables import best_on_val, clearest
from experiments.finetuning.table import main_measures
from experiments.overview import FINETUNING, PLAIN, SUBWORDS, published_bits
from experiments.peers.report import CELLS, by_rate
from experiments.reproduction.table import number, one, quoted, title
from experiments.results import HERE, result_of
from experiments.scaling.emulated import LARGEST, Results, between, scaling_of
from experiments.scaling.publication.puri import GPUS, SCALING
from experiments.shipped.tables import is_of_the_shipped, named
from experiments.speedrun.report import best_lines
from experiments.studies import bits_by_seed, by_name, mean_bits, whole_results
from experiments.tables import markdown
from experiments.time_to_target.report import OURS, SECONDS, races, seconds_of, spread
from experiments.time_to_target.run import LOOP_2018
from model.files.storage import read_json

Found = Mapping[str, Any]
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
    read: Callable[[Found], Measured]
    published: str = "-"


def table() -> str:
    """Return the table of all claims."""
    return markdown(HEAD, [line(claim) for claim in (*transfer(), *CLAIMS)])


def line(claim: Claim) -> list[str]:
    """Return the row of a claim; without a result, only the published values."""
    kept, path = result_of(claim.file), HERE / claim.file
    found = claim.read(read_json(path)) if path.is_file() else Measured("-")
    published = found.published if found.published != "-" else claim.published
    minutes = "-" if kept.minutes is None else f"{kept.minutes:.1f}"
    revisions = ", ".join(f"`{name}`" for name in kept.revisions) or kept.state
    cells = [claim.what, published, found.ours, found.interval]
    return [*cells, f"`{kept.result.command}`", minutes, revisions]


def transfer() -> Iterator[Claim]:
    """Yield a claim for each row of the published sets that has a published or a measured value."""
    for name, entry in SETS.items():
        file = f"reproduction/results/{PLAIN}/{name}.json"
        for row in entry.rows:
            values = [quoted(p, row.measure) for p in entry.published if p.row == row.name]
            if values or (HERE / file).is_file():
                words = f"{title(name)}, {row.title}; ours of frozen features"
                yield Claim(words, file, partial(of_row, row), ", ".join(values) or "-")


def of_row(row: Row, found: Found) -> Measured:
    """Return the value of a row of a published set."""
    cell = number(found[row.of], row.measure)
    ends = (one(end, row.measure) for end in cell["interval"])
    return Measured(one(cell["value"], row.measure), " to ".join(ends))


def accuracy_of(row: Found) -> Measured:
    """Return a test accuracy."""
    return fraction(row["test_accuracy"], row["test_interval"])


def fraction(value: float, interval: Sequence[float], published: str = "-") -> Measured:
    """Return a fraction in per cent."""
    return Measured(one(value, ""), " to ".join(one(end, "") for end in interval), published)


def bits(found: Found) -> Measured:
    """Return bits per character of the held-out reviews."""
    value, margin = found["bits_per_character"], NORMAL * found["standard_error"]
    published = f"{published_bits(1024):.3f} (1,024 units, on training text)"
    return Measured(f"{value:.3f}", f"{value - margin:.3f} to {value + margin:.3f}", published)


def fine_tuned(task: str, found: Found) -> Measured:
    """Return the main measure of the fine-tuned model, which may be a forerunner."""
    study = main_measures(FINETUNING)[task]
    cell = study["ours"]["learned"]
    published = ", ".join(f"{one(v, '')} ({name})" for name, v in study["published"].items())
    measured = fraction(cell["value"], cell["interval"], published)
    if is_of_the_shipped(found, PLAIN):
        return measured
    return replace(measured, ours=f"{measured.ours} ({named(found, PLAIN)})")


def performance_model(found: Found) -> Measured:
    """Return the speed of 128 GPUs that the fitted model predicts."""
    predicted, published = (
        ", ".join(f"{curve[-1]:.1f}" for curve in curves.values())
        for curves in (found["predicted"], SCALING)
    )
    return Measured(predicted, f"{found['worst_error']:.1%} off at worst", published)


def scale_model(found: Found) -> Measured:
    """Return the speed of the largest emulated cluster."""
    row = Results(found).training("2018", 1)[LARGEST]
    published = f"{dict(zip(GPUS, SCALING['ethernet_4096'], strict=True))[LARGEST]:.1f}"
    spread = f"{between(row)}, {row['runs']} runs" if row["runs"] > 1 else "1 run"
    return Measured(f"{scaling_of(row):.1f}", spread, published)


def ended(found: Found) -> dict[str, float]:
    """Return the final bits of a study's runs by their names."""
    return {run["name"]: run["valid_bits_per_character"] for run in found["runs"]}


def mixed_precision(found: Found) -> Measured:
    """Return the bits of fp16 minus those of fp32."""
    bits = ended(found)
    seeds = max(abs(bits[f"fp32_seed_{seed}"] - bits["fp32"]) for seed in (1, 2))
    theirs = published_bits(4096, "fp16") - published_bits(4096, "fp32")
    ours = bits["fp16"] - bits["fp32"]
    spread = f"another seed changes the result by {seeds:.3f}"
    return Measured(f"{ours:+.3f}", spread, f"{theirs:.3f}")


def two_replicas(found: Found) -> Measured:
    """Return the speed of two replicas of 64 units in a loop over bytes: threads, processes."""
    facts = ("backend", "hidden_size", "replicas", "how")
    cases = {tuple(case[fact] for fact in facts): case for case in found["cases"]}
    both = [cases["reference", 64, 2, how] for how in ("threads", "processes")]
    ranges = [" to ".join(f"{end:.2f}" for end in case["speedup_range"]) for case in both]
    gpus, threads = (
        found["published"][way]
        for way in ("a process per GPU, V100", "threads of one process (DataParallel)")
    )
    return Measured(
        ", ".join(f"{case['speedup']:.2f}" for case in both),
        f"{', '.join(ranges)}, all rounds",
        f"8 GPUs: {threads['8']} as threads, {gpus['8']} as processes; 1 GPU: {gpus['1']} "
        "(thousand characters/s)",
    )


def largest_rate(found: Found) -> Measured:
    """Return the bits at 1,024 lanes by the linear and by the square-root rule."""
    rules = ("linear_1024", "square_root_1024")
    return Measured(", ".join(f"{ended(found)[rule]:.2f}" for rule in rules))


def regressed(found: Found) -> Measured:
    """Return the error of the best kind of regression."""
    error, kind = min((k["mean_absolute_percentage_error"], k["kind"]) for k in found["kinds"])
    return Measured(f"{100 * error:.0f} ({kind})", f"{len(found['runs'])} runs")


def replayed(found: Found) -> Measured:
    """Return the largest error of a step."""
    errors = [abs(row["error"]) for row in found["rows"]]
    return Measured(f"{100 * max(errors):.1f}", f"{len(errors)} ways")


def ratio(name: str, found: Found) -> Measured:
    """Return a ratio of the benchmark, with its range over the rounds."""
    low, high = found["ratio_ranges"][name]
    return Measured(f"{found['ratios'][name]:.2f}", f"{low:.2f} to {high:.2f}, all turns")


def race(found: Found) -> Measured:
    """Return the seconds to the target, medians of the seeds."""
    ended = races()
    ours, theirs = (seconds_of(name, ended) for name in (OURS, LOOP_2018))
    interval = f"{min(ours):,.0f} to {max(ours):,.0f}, {len(ours)} seeds"
    return Measured(SECONDS.format(median(ours)), interval, spread(theirs, SECONDS))


def speedrun(found: Found) -> Measured:
    """Return the target and the seconds of the fastest run for each target of the board."""
    lines = best_lines()
    ours = ", ".join(f"{target} in {seconds}" for target, _, _, _, seconds in lines)
    return Measured(ours, "all turns; " + ", ".join(run for _, run, *_ in lines))


def recipe(found: Found) -> Measured:
    """Return the final bits of the recipe, the mean of its seeds, and of Adam at its best rate."""
    bits = {n: run["valid_bits_per_character"] for n, run in whole_results("recipe").items()}
    seeds = [bits[f"muon_1e-2{end}"] for end in ("", "_seed_1", "_seed_2")]
    best = min(value for name, value in bits.items() if name.startswith("adam_"))
    ours = f"{fmean(seeds):.3f}; Adam at its best rate {best:.3f}"
    return Measured(ours, f"{min(seeds):.3f} to {max(seeds):.3f}, three seeds")


def padding(found: Found) -> Measured:
    """Return the speed over batches that are padded to their longest text."""
    cell = found["ratios"]["padded_sorted"]
    return Measured(f"{cell['median']:.2f}", f"{cell['low']:.2f} to {cell['high']:.2f}, all turns")


def exposed(found: Found) -> Measured:
    """Return the exposed seconds of the fp16 exchange of 2018 and of today."""
    seconds = {(row["profile"], row["way"]): row["exposed_seconds"] for row in found["rows"]}
    ways = ("fp16, flat (2018)", "fp16")
    return Measured(", ".join(f"{seconds['one by one', way]:.3f}" for way in ways))


def faults(found: Found) -> Measured:
    """Return the number of faults, and the longest recovery."""
    longest = max(fault["seconds"] for fault in found["faults"])
    return Measured(f"{len(found['faults'])}", f"whole again after {longest:.0f} s at most")


def by_peer(found: Found) -> Measured:
    """Return the final bits of each cell at its better rate, the mean of its seeds."""
    best = {cell.replace("_", " "): next(by_rate(cell), None) for cell in CELLS}
    runs = {cell: rate[1] for cell, rate in best.items() if rate}
    means = {cell: mean_bits(same) for cell, same in runs.items()}
    parts = (f"{cell} {means[cell]:.3f}" for cell in sorted(runs, key=means.__getitem__))
    seeds = ", ".join(f"{len(same)} of {cell}" for cell, same in runs.items())
    return Measured(", ".join(parts), f"seeds: {seeds}")


def prompted_unit(name: str, found: Found) -> Measured:
    """Return the accuracy of one unit, after the prompt whose units are clearest on train."""
    _, row = clearest(found, name)
    return accuracy_of(row["best_unit"])


def with_ngrams(found: Found) -> Measured:
    """Return the bits with n-grams, the mean of the seeds, and those without."""
    runs = by_name("ngrams")
    with_them = list(bits_by_seed(runs["ngrams"]).values())
    ours = f"{fmean(with_them):.3f}; without them {mean_bits(runs['mlstm']):.3f}"
    ends = f"{min(with_them):.3f} to {max(with_them):.3f}"
    return Measured(ours, f"{ends}, {len(with_them)} seeds")


def best_feature(name: str, found: Found) -> Measured:
    """Return what the features that are best on a set's val are worth on its test set."""
    return accuracy_of(best_on_val(found["sets"][name]["rows"]))


def bare_unit(name: str, found: Found) -> Measured:
    """Return the accuracy on a set of one unit, of the texts as they are."""
    return accuracy_of(found["sets"][name]["after"]["nothing"]["best_unit"])


def clamped(found: Found) -> Measured:
    """Return how many texts are positive with the unit clamped low, and clamped high."""
    rows = sorted((row for row in found["rows"] if "value" in row), key=lambda r: r["value"])
    parts = [f"{100 * row['positive']:.1f}" for row in (rows[0], rows[-1])]
    return Measured(" and ".join(parts), f"{rows[0]['texts']} texts each")


CLAIMS = (
    Claim("Amazon reviews, bits per character", f"shipped/results/bits_{PLAIN}.json", bits),
    Claim("the same from subwords instead of bytes",
          f"shipped/results/bits_{SUBWORDS}.json", bits),
    Claim("from subwords, after more reviews (not shipped)", "billion/results/bits_all.json", bits),
    Claim("the model recites reviews it has read: 50 bytes after 50",
          f"shipped/results/memorization_{PLAIN}.json",
          lambda found: Measured(f"{found['train']['exact']} of {found['train']['prompts']:,}")),
    Claim("SST, fine-tuned, accuracy", f"finetuning/results/{PLAIN}/sst_learned.json",
          partial(fine_tuned, "sst")),
    Claim("SemEval E-c, fine-tuned, mean F1 of 8 emotions",
          f"finetuning/results/{PLAIN}/semeval_learned.json", partial(fine_tuned, "semeval")),
    Claim("SST by one unit of the model that has seen labels",
          "neuron/results/sentiment_1024/neuron.json", lambda found: accuracy_of(found["alone"])),
    Claim("SST by the unit of largest weight, no labels before",
          f"neuron/results/{PLAIN}/neuron.json", lambda found: accuracy_of(found["alone"])),
    Claim("SST by the unit of amazon_subword_1024 that is best on train, no labels before",
          f"features/results/{SUBWORDS}_prompts.json", partial(bare_unit, "sst")),
    Claim("the same after more reviews (not shipped)",
          f"features/results/{SUBWORDS}_all_prompts.json", partial(bare_unit, "sst")),
    Claim("the tour's reviews, accuracy", "tour/results/transfer.json", accuracy_of),
    Claim("512 units, 44 M characters: SST", "main_job/results/sst.json", accuracy_of),
    Claim("speed of 128 GPUs relative to one (4,096 units over Ethernet; over InfiniBand; 8,192 "
          "units), by a fitted model",
          "scaling/results/published.json", performance_model),
    Claim(f"speed of {LARGEST} GPUs over Ethernet relative to one, by a scale model with nothing "
          "fitted",
          "scaling/results/emulated.json", scale_model),
    Claim("fp16 less fp32, bits per character", "scaling/results/precision.json",
          mixed_precision),
    Claim("speed of two replicas relative to one: as threads of one process; as processes",
          "scaling/results/interpreter.json", two_replicas),
    Claim("bits per character with 64 times the lanes, the rate raised linearly; by the square "
          "root",
          "scaling/results/convergence.json", largest_rate),
    Claim("step time regressed on a few features: mean error, per cent",
          "scaling/results/regressed.json", regressed),
    Claim("exposed exchange predicted: worst error, per cent of the step",
          "scaling/results/replayed.json", replayed),
    Claim("performance model fitted to this machine: worst error, per cent",
          "scaling/results/measured_gloo.json",
          lambda found: Measured(f"{100 * found['worst_error']:.0f}",
                                 f"{found['fitted_points']} points fitted")),
    Claim("speed of the recurrence relative to the loop of 2018, fp32, 1,024 units",
          "recurrence/results/training_fp32_1024.json", partial(ratio, "to_loop_2018")),
    Claim("speed of the recurrence relative to its products alone, fp32, 1,024 units",
          "recurrence/results/training_fp32_1024.json", partial(ratio, "to_gemm_floor")),
    Claim("seconds to the bits that the published recipe, run here, has after 6 M characters",
          "time_to_target/results/published_seed_0_6000000.json", race),
    Claim("seconds of two cores to a target of bits per character, by the fastest recipe tried",
          "speedrun/results/ngrams_256_8m_seed_0.json", speedrun),
    Claim("bits per character of 512 units after 6 M characters",
          "recipe/results/muon_1e-2.json", recipe),
    Claim("speed of reading JSON lines in two processes relative to pandas in one",
          "data/results/speed.json",
          lambda found: Measured(f"{found['ratios']['pandas / ours, plain, 2 processes']:.2f}")),
    Claim("waiting for data, per cent of the time", "data/results/stream.json",
          lambda found: Measured(f"{100 * max(row['waited'] for row in found['rows']):.2f}")),
    Claim("speed of featurizing IMDB relative to padded batches sorted by length",
          "featurizing/results/imdb.json", padding),
    Claim("seconds of exchange that computing does not hide: sent at the end, sent as ready",
          "exchange/results/replay.json", exposed),
    Claim("events that a run survives: faults, returns of nodes, restarts by hand",
          "elastic/results/faults.json", faults),
    Claim("half a million parameters, 6 M characters, by cell: bits per character",
          "peers/results/mlstm_1e-2_seed_0.json", by_peer),
    Claim("256 units, 6 M characters: bits per character with n-grams at the input",
          "ngrams/results/ngrams_seed_0.json", with_ngrams),
    Claim("SST by the features of amazon_1024 that are best on val",
          "features/results/amazon_1024.json", partial(best_feature, "sst")),
    Claim("SST by the features of amazon_1024 and of subwords, side by side, that are best on val",
          "features/results/amazon_1024_beside_subword.json", partial(best_feature, "sst")),
    Claim("IMDB by the features of amazon_1024 that are best on val",
          "features/results/amazon_1024_imdb.json", partial(best_feature, "imdb")),
    Claim("SST by one unit of amazon_1024, after the text and the beginning of a title that is "
          "best on train",
          "features/results/amazon_1024_prompts.json", partial(prompted_unit, "sst")),
    Claim("SST by the states of amazon_1024 over two readings that are best on val",
          "features/results/amazon_1024_twice.json", partial(best_feature, "sst")),
    Claim("SST, its first 1,000 test sentences, without any label, by the titles that amazon_1024 "
          "expects",
          "features/results/amazon_1024.json",
          lambda found: accuracy_of(found["sets"]["sst"]["titles"]["at_median"])),
    Claim("texts that a judge calls positive, the unit clamped to -4 and to +4, per cent",
          "generation/results/sentiment_1024.json", clamped),
    Claim("the same of amazon_1024, which was given no labels",
          "generation/results/amazon_1024.json", clamped),
)  # fmt: skip
