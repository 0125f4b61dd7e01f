"""The config of a run: a TOML file or an earlier run, overridden key by key on the command line."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from data_utils.lanes import DataConfig, TextClock
from mlstm_sentiment.bounds import Argument, Bound, check_bounds
from mlstm_sentiment.errors import InputError
from model.layers.config import ModelConfig
from training.checkpoint import CheckpointConfig
from training.evaluation import EvaluateConfig
from training.optimizers.optim import OptimConfig
from training.parallel.exchange import ParallelConfig
from training.parallel.launcher import may_restart
from training.run_log import LogConfig
from training.run_plan import RunPlan
from training.runs.run_directory import PretrainingDirectory, read_toml
from training.trainer import TrainConfig

from .command import parse

SHIPPED = Path(__file__).parent
TOUR = SHIPPED / "tour.toml"
# Names that other libraries give to our settings; and constants, with the file that has them.
_OURS = {
    "--optim.lr": "learning-rate lr max-lr",
    "--optim.weight-decay": "weight-decay wd",
    "the constant BETAS in training/optimizers/optim.py": "betas beta1 beta2 adam-beta1 adam-beta2",
    "torch's default of the optimizer, in training/optimizers/optim.py": "eps",
    "the constants BETAS (sgd) and _MUON_MOMENTUM in training/optimizers/optim.py": "momentum",
    "--optim.name": "optimizer",
    "--optim.decay": "lr-scheduler scheduler",
    "--optim.cooldown, a fraction of the steps": "cooldown-steps",
    "--optim.warmup": "warmup-ratio",
    "--optim.warmup, a fraction of the steps": "warmup-steps",
    "--optim.clip-norm": "grad-clip max-grad-norm clip",
    "--data.lanes": "batch-size",
    "--data.lanes-per-rank": "per-device-train-batch-size",
    "--data.window": "seq-length seq-len sequence-length block-size context-length bptt",
    "--data.corpus": "dataset",
    "--train.epochs": "epochs num-epochs num-train-epochs",
    "--train.steps": "max-steps num-steps iters",
    "--parallel.lane-groups, or --parallel.windows-per-step": "gradient-accumulation-steps",
    "--parallel.lane-groups": "accumulate-grad-batches",
    "--train.precision fp16": "fp16",
    "--train.precision bf16": "bf16",
    "--train.precision fp16 or bf16": "amp",
    "--train.precision": "dtype",
    "--model.hidden-size": "hidden-dim d-model n-embd",
    "--model.embedding-size": "emsize",
    "--model.layers": "num-layers n-layer",
    "--model.cell": "rnn-type",
    "--evaluate.every-steps, or every-characters": "eval-every eval-steps eval-interval",
    "--checkpoint.every-steps, or every-characters": "save-steps save-every",
    "--checkpoint.keep": "save-total-limit",
    "--log.every-steps": "logging-steps log-interval",
    "--run-dir": "output-dir save",
    "--resume, or --train.start-from for weights alone": "load",
    "--resume": "resume-from-checkpoint",
    "python -m torch.distributed.run --nproc-per-node": "world-size",
    "the key parallel.bucket_cap_mb of a config file": "bucket-cap-mb",
}

OTHER_NAMES = {name: ours for ours, names in _OURS.items() for name in names.split()}
"""By the last part of an option's name, in any section."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A pretraining run; a key that its TOML file leaves out has the default of its section."""

    seed: Annotated[int, Bound(min=0, below=2**63)] = 0
    """Seeds the initial weights, the order of later epochs, and dropout."""
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        check_bounds(self)

    def plan(self, clock: TextClock) -> RunPlan:
        """Return when the run ends, evaluates and saves, by the clock of its text."""
        steps = self.train.total_steps(clock.steps)
        return RunPlan(clock, steps, self.optim.cooldown_of(steps), self.evaluate, self.checkpoint)


def load_config(path: Path) -> RunConfig:
    """Read the config of a run as `read_toml` does; keys left out have their defaults."""
    return read_toml(path, RunConfig, SHIPPED)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Pretrain a byte-level multiplicative LSTM on reviews."""

    config: Path | None = None
    """A TOML file, such as those in configs/. Default: configs/tour.toml, a small example."""
    run_dir: Path | None = None
    """The folder of the run. Default: runs/<name of the config>."""
    resume: Path | None = None
    """The directory of a run to continue; docs/resume.md says what may change."""
    if_exists: Literal["refuse", "resume"] | None = None
    """If the run directory already holds a run: refuse, or resume it, with the same settings.
    Default: resume under a launcher that restarts its workers, else refuse. With resume, no number
    is added to the directory's name."""
    run: Annotated[RunConfig, Argument(is_flat=True)] = field(default_factory=RunConfig)

    @classmethod
    def from_command_line(
        cls, arguments: Sequence[str] | None = None, doc: str | None = None
    ) -> "RunOptions":
        """Parse the command line; its keys override those of --config or --resume."""
        arguments = sys.argv[1:] if arguments is None else arguments
        # The file is read first: its values are the parser's defaults.
        early = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        early.add_argument("--config", type=Path)
        early.add_argument("--resume", type=Path)
        try:
            args, _ = early.parse_known_args(arguments)
        except argparse.ArgumentError:
            return parse(cls, doc, arguments=arguments)  # the full parser reports the mistake
        if args.config and args.resume:
            raise InputError("--config cannot be given with --resume: a run keeps its config")
        file = args.config or TOUR
        if args.resume:
            file = PretrainingDirectory(args.resume).check_exists().config
        base = _without_excluded(load_config(file), arguments)
        default = cls(config=args.config, resume=args.resume, run=base)
        return parse(cls, doc, arguments=arguments, default=default, other_names=OTHER_NAMES)

    @property
    def may_be_under_way(self) -> bool:
        """Whether an earlier start of the same command may already have begun the run."""
        if self.if_exists is None:
            return may_restart()
        return self.if_exists == "resume"


def _without_excluded(config: RunConfig, arguments: Sequence[str]) -> RunConfig:
    """Drop a value of the file if the command line gives a value to the key that excludes it."""
    values = {}
    for word, following in pairwise([*arguments, ""]):
        name, equals, value = word.partition("=")
        values[name.lstrip("-").replace("-", "_")] = value if equals else following
    for section in fields(config):
        pair = getattr(getattr(config, section.name), "EXCLUSIVE", ())
        for mine, excluded in zip(pair, reversed(pair), strict=True):
            is_set = values.get(f"{section.name}.{mine}", "None") != "None"
            if is_set and f"{section.name}.{excluded}" not in values:
                changed = replace(getattr(config, section.name), **{excluded: None})
                config = replace(config, **{section.name: changed})
    return config


def changed_keys(before: RunConfig, after: RunConfig) -> set[str]:
    """Return the dotted keys in which two configs differ."""
    return {key for key, value in flatten(after).items() if flatten(before)[key] != value}


def flatten(config: RunConfig) -> dict[str, object]:
    """Return the value of every key of a config, by its dotted name."""
    flat: dict[str, object] = {"seed": config.seed}
    for section in fields(config):
        if section.name != "seed":
            for key, value in vars(getattr(config, section.name)).items():
                flat[f"{section.name}.{key}"] = value
    return flat


def with_lanes(config: RunConfig, lanes: int) -> RunConfig:
    """Give the global batch as a total number of lanes."""
    return replace(config, data=replace(config.data, lanes=lanes, lanes_per_rank=None))
