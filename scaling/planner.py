"""The planner: the options of scripts/plan.py, its JSON and what it prints."""

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from configs.options import SHIPPED, RunConfig, load_config, read_toml
from data_utils.corpus import Corpus, open_corpus
from data_utils.lanes import TextClock, lanes_of, settle_shuffle
from data_utils.provenance import describe_origin
from mlstm_sentiment.bounds import Bound, PositiveInt
from mlstm_sentiment.engine.architecture import VOCABULARY_SIZE
from mlstm_sentiment.errors import InputError
from training.runs.run_directory import PretrainingDirectory, read_rows

from .hardware import ClusterConfig
from .planning import Plan, TextSize

_CLUSTERS = SHIPPED / "clusters"
_MOST_DIGITS = 6  # of a number of units
_EPOCH_OF_AMAZON = 38.3e9  # characters
VALID_FRACTION = 1e-3  # of the train split, as scripts/prepare_corpus.py splits by default
_COLUMNS = (
    "gpus", "lanes", "step_seconds", "efficiency", "characters_per_second", "hours", "gpu_hours"
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Estimate what a training job takes, by the performance model of experiments/scaling."""

    model: str | None = None
    """A run's TOML file, such as configs/paper_4096.toml; or a number of units, for the recipe of
    2018: 256 lanes per GPU, fp16, gradients in one piece after backward."""
    cluster: Path | None = None
    """A TOML file like those in configs/clusters."""
    corpus: Path | None = None
    """A prepared corpus like the one to train on, for its vocabulary, the characters of a token,
    the valid split, and the length of the run. Default: tokens are bytes."""
    characters: Annotated[float | None, Bound(above=0, max=1e18)] = None
    """Characters to train on. Default: what the run reads, of the corpus or, without one, of 38.3e9
    characters, the Amazon reviews."""
    gpus: PositiveInt | None = None
    """Number of GPUs; more than the cluster has, if it has a network. Default: all."""
    lanes_per_gpu: PositiveInt | None = None
    """Lanes of a GPU, on average. Default: the GPUs share those of the TOML file."""
    output: Path | None = None
    """JSON file for the result."""


def make_plan(options: PlanOptions) -> dict[str, Any]:
    """Return the planner's answers for these options, with their origin."""
    if options.cluster is None or options.model is None:
        raise InputError("name a --model and a --cluster, or a file for --calibrate")
    cluster = read_toml(options.cluster, ClusterConfig, _CLUSTERS)
    gpus = options.gpus or cluster.total_gpus
    run, text = read_job(options, gpus)
    plan = Plan(cluster, run, gpus, text)
    most = max(gpus, cluster.total_gpus)
    counts = {gpus, cluster.total_gpus, *(2**n for n in range(min(most, 4096).bit_length()))}
    table = [
        Plan(cluster, run, count, text).answers()
        for count in sorted(counts)
        if count <= run.data.total_lanes(count)
    ]
    settings = {key: str(value) for key, value in vars(options).items() if key != "output"}
    return {
        **plan.answers(),
        "table": [{key: row[key] for key in _COLUMNS} for row in table],
        "assumptions": list(plan.assumptions()),
        "settings": settings,
        "origin": describe_origin(),
    }


def read_job(options: PlanOptions, gpus: int = 1) -> tuple[RunConfig, TextSize]:
    """Return the run that the options name, with its lanes and vocabulary, and its text."""
    word, characters = options.model or "", options.characters
    if word.isdecimal() and len(word) <= _MOST_DIGITS:
        run = load_config(SHIPPED / "paper_4096.toml")
        parallel = replace(run.parallel, flat=True, shares="measured")
        run = replace(run, model=replace(run.model, hidden_size=int(word)), parallel=parallel)
    elif word.endswith(".toml"):
        run = load_config(Path(word))
    else:
        raise InputError(f"--model {word}: neither a number of units nor a run's TOML file")
    if options.lanes_per_gpu is not None:
        data = replace(run.data, lanes=None, lanes_per_rank=options.lanes_per_gpu)
        run = replace(run, data=data)
    if options.corpus is not None:
        corpus = open_corpus(options.corpus)
        model = run.model.for_vocabulary(corpus.tokenizer.vocabulary_size)
        valid = float(len(corpus.splits["valid"].tokens))
        characters = characters or _characters_read(run, gpus, corpus)
        text = TextSize(characters, corpus.characters_per_token, valid)
        return replace(run, model=model), text
    if run.model.resolved_vocabulary_size != VOCABULARY_SIZE:
        raise InputError(
            f"model.vocabulary_size is {run.model.vocabulary_size}, so tokens are subwords; give "
            "their prepared corpus with --corpus"
        )
    valid = (characters or _EPOCH_OF_AMAZON) * VALID_FRACTION
    return run, TextSize(characters or _characters_read(run, gpus), valid_tokens=valid)


def _characters_read(run: RunConfig, gpus: int, corpus: Corpus | None = None) -> float:
    """Return how many characters a run reads, by the clock that training uses."""
    data, lanes, epoch = run.data, run.data.total_lanes(gpus), _EPOCH_OF_AMAZON
    windows = epoch / (lanes * data.window)
    if corpus is not None:
        train, epoch = corpus.splits["train"], corpus.train_characters
        if data.shuffle == "auto":
            data = settle_shuffle(data, train)
        windows = lanes_of(train, data, lanes, run.seed, slice(None)).windows
    clock = TextClock(windows, run.parallel.windows_per_step, epoch)
    return clock.characters(run.plan(clock).last_step)


def lines(result: dict[str, Any]) -> list[str]:
    """Return the answers as lines for people."""
    window, dollars = result["window"], result["dollars"]
    parts = ", ".join(f"{name} {window[name]:.3f}" for name in window if name != "seconds")
    pauses = ", ".join(
        f"{result[f'{kind}s']:,} {kind}s of {result[f'{kind}_seconds']:.1f} s"
        for kind in ("evaluation", "checkpoint")
    )
    cost = f"{result['gpu_hours']:,.1f} GPU hours" + (
        f", {dollars:,.0f} dollars" if dollars else ""
    )
    named = [
        ("step", f"{result['step_seconds']:.3f} s; of a window: {parts}"),
        ("time", f"{result['hours']:.1f} h for {result['steps']:,.0f} steps, {pauses}"),
        ("cost", cost),
        *((group["device"], _group_line(group)) for group in result["groups"]),
        ("largest batch", f"{result['largest_lanes']:,} lanes"),
    ]
    width = max(len(name) for name, _ in named)
    return [
        f"{result['gpus']} GPUs of {result['cluster']}, {result['lanes']:,} lanes",
        *(f"  {name:<{width}}  {text}" for name, text in named),
        "",
        "  GPUs     lanes  step, s  efficiency  characters/s     hours  GPU hours",
        *(
            f"  {row['gpus']:>4}{row['lanes']:>10,}{row['step_seconds']:>9.3f}"
            f"{row['efficiency']:>12.1%}{row['characters_per_second']:>14,.0f}"
            f"{row['hours']:>10.1f}{row['gpu_hours']:>11,.1f}"
            for row in result["table"]
        ),
        "",
        *(f"  assumed: {line}" for line in result["assumptions"]),
    ]


def _group_line(group: dict[str, Any]) -> str:
    fits = "" if group["fits"] else ": TOO MANY"
    return (
        f"{group['gpus']} x {group['lanes_per_gpu']} lanes, {group['memory_bytes'] / 1e9:.1f} of "
        f"{group['available_bytes'] / 1e9:.1f} GB{fits}; {group['largest_lanes_per_gpu']} lanes fit"
    )


def compare_with_run(cluster_file: Path, folder: Path) -> dict[str, Any]:
    """Return the planned and the actual speed of a run, by the median of its rows."""
    cluster = read_toml(cluster_file, ClusterConfig, _CLUSTERS)
    directory = PretrainingDirectory(folder).check_exists()
    config, rows = load_config(directory.config), read_rows(directory.metrics)
    # The first one includes compilation.
    speeds = [row["characters_per_second"] for row in rows[1:] if "characters_per_second" in row]
    if not speeds:
        raise InputError(f"{directory.metrics}: too few rows to measure a speed; train longer")
    last, lanes = rows[-1], config.data.total_lanes(1)
    tokens = last["step"] * config.parallel.windows_per_step * lanes * config.data.window
    text = TextSize(last["characters"], last["characters"] / tokens)
    gpus = len(last.get("rank_characters_per_second") or [None])
    planned, actual = Plan(cluster, config, gpus, text).characters_per_second, median(speeds)
    return {
        "planned_characters_per_second": planned,
        "actual_characters_per_second": actual,
        "actual_to_planned": actual / planned,
    }


def in_words(result: dict[str, Any], cluster_file: Path) -> str:
    _, actual, ratio = result.values()
    return f"speed: {actual:,.0f} characters/s, {ratio:.2f} of the plan of {cluster_file.name}"
