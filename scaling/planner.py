"""The planner's command line: from options to a plan and its answers."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from configs.toml_file import SHIPPED, load_config, read_toml
from data_utils.corpus import open_corpus
from data_utils.provenance import describe_origin
from model.bounds import Bound, Fraction, PositiveInt, check_bounds
from model.errors import InputError
from model.language_model import VOCABULARY_SIZE, ModelConfig

from .answers import answers
from .hardware import ClusterConfig
from .memory import PRECISION_BYTES
from .planning import Job, Plan
from .step_time import Synchronisation

LANES, WINDOW = 256, 256  # of a GPU, as published
MOST_DIGITS = 6  # of a number of units
# The gates' gradients and the decoder's, measured on a CPU (experiments/scaling): ready from 0.64
# to 0.99 of backward, two thirds of the computing: 0.35 x 2/3 = f (1 - 1/5).
OVERLAPPED = Synchronisation(chunks=5, overlap=0.29)
FLAT = Synchronisation()


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Estimate what a training job takes, by the performance model of experiments/scaling."""

    model: str
    """Units of a published model, such as 4096; or a run's TOML file, for its model, lanes and
    window."""
    cluster: Path
    """A TOML file like those in configs/clusters."""
    corpus: Path | None = None
    """A prepared corpus like the one to train on, for its vocabulary and the characters of a token.
    Default: tokens are bytes."""
    characters: Annotated[float, Bound(above=0, max=1e18)] = 38.3e9
    """Characters to train on; 38.3e9 is an epoch of the Amazon reviews."""
    gpus: PositiveInt | None = None
    """Number of GPUs; more than the cluster has, if it has a network. Default: all."""
    lanes_per_gpu: PositiveInt | None = None
    """Lanes of a GPU, on average. Default: those of the TOML file, rounded up, or 256."""
    window: PositiveInt | None = None
    """Tokens of a lane and window. Default: the TOML file's, or 256."""
    precision: Literal["fp16", "bf16", "fp32"] = "fp16"
    """Precision of the products, which decides memory; speed comes from the cluster's file."""
    exchange: Literal["flat", "overlapped"] = "flat"
    """flat: all gradients after backward, as in 2018. overlapped: gate by gate, during it."""
    gradients: Literal["fp16", "bf16", "fp32"] = "fp16"
    """Precision in which gradients travel."""
    windows_per_step: PositiveInt = 1
    """Windows between two exchanges."""
    lane_groups: PositiveInt = 1
    """Number of micro-batches of a GPU's lanes, computed one after the other to save memory."""
    shares: Literal["speed", "even"] = "speed"
    """How lanes are divided among GPUs of unequal speed."""
    efficiency: Fraction = 0.8
    """Efficiency below which more GPUs are not worth it."""
    headroom: Fraction = 0.1
    """Fraction of the memory to leave free."""
    preemptions_per_day: Annotated[float, Bound(min=1e-6, max=1e9)] | None = None
    """Preemptions of a node at the spot price, on average. Default: the cluster's."""
    measured: tuple[Path, ...] = ()
    """Run directories, or JSON lists of runs, for a regression beside the model."""
    output: Path | None = None
    """JSON file for the result."""

    def __post_init__(self) -> None:
        check_bounds(self, "--")


def make_plan(options: PlanOptions) -> dict[str, Any]:
    """Return the answers for these options, with their origin."""
    cluster = read_toml(options.cluster, ClusterConfig, SHIPPED / "clusters")
    gpus = cluster.total_gpus if options.gpus is None else options.gpus
    plan = Plan(cluster, job_of(options, gpus))
    result = answers(
        plan,
        bound=options.efficiency,
        headroom=options.headroom,
        preemptions_per_day=options.preemptions_per_day,
    )
    if options.measured:
        result["regression"] = compare(plan, options.measured)
    given = {key: str(value) for key, value in vars(options).items() if key != "output"}
    return {**result, "settings": given, "origin": describe_origin()}


def compare(plan: Plan, measured: tuple[Path, ...]) -> dict[str, Any]:
    """Return predictions from measured runs; run folders belong to the first kind of GPU."""
    from .fitting.comparison import regression_answers  # importing scikit-learn takes a second
    from .fitting.regression import read_runs, regress

    rate = plan.cluster.nodes[0].operations_per_second
    runs = [run for path in measured for run in read_runs(path, rate)]
    return regression_answers(plan, runs, regress(runs))


def job_of(options: PlanOptions, gpus: int) -> Job:
    """Settle what the options leave open."""
    model, lanes, window = model_of(options.model, gpus)
    model, characters_per_token = reading(model, options.corpus)
    return Job(
        model=model,
        characters=options.characters,
        characters_per_token=characters_per_token,
        gpus=gpus,
        lanes_per_gpu=lanes if options.lanes_per_gpu is None else options.lanes_per_gpu,
        window=window if options.window is None else options.window,
        precision=options.precision,
        lane_groups=options.lane_groups,
        by_speed=options.shares == "speed",
        how=replace(
            OVERLAPPED if options.exchange == "overlapped" else FLAT,
            bytes_per_parameter=PRECISION_BYTES[options.gradients],
            windows=options.windows_per_step,
        ),
    )


def model_of(word: str, gpus: int) -> tuple[ModelConfig, int, int]:
    """Return a model, the lanes of a GPU, and the window."""
    if word.isdecimal() and len(word) <= MOST_DIGITS:
        return ModelConfig(hidden_size=int(word)), LANES, WINDOW
    if not word.endswith(".toml"):
        raise InputError(f"--model {word}: neither a number of units nor a run's TOML file")
    run = load_config(Path(word))
    total = run.data.total_lanes(gpus)
    if total < gpus:
        raise InputError(f"--model {word}: data.lanes is {total}, fewer than {gpus} GPUs")
    return run.model, -(-total // max(gpus, 1)), run.data.window


def reading(model: ModelConfig, folder: Path | None) -> tuple[ModelConfig, float]:
    """Return a model with the V of the corpus that it reads, and the characters of a token."""
    if folder is not None:
        corpus = open_corpus(folder)
        known = model.for_vocabulary(corpus.tokenizer.vocabulary_size)
        return known, corpus.characters_per_token
    if model.symbols != VOCABULARY_SIZE:
        raise InputError(
            f"model.vocabulary_size is {model.symbols}, so tokens are pieces of words; give their "
            "prepared corpus with --corpus"
        )
    return model, 1.0
