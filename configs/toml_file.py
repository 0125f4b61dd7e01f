"""The config of a run, with one section for each component."""

import dataclasses
from pathlib import Path
from typing import Annotated

from data_utils.lanes import DataConfig, TextClock
from mlstm_sentiment.bounds import Bound, check_bounds
from model.layers.config import ModelConfig
from training.checkpoint import CheckpointConfig
from training.evaluation import EvaluateConfig
from training.metrics import LogConfig
from training.optimizers.optim import OptimConfig
from training.parallel.exchange import ParallelConfig
from training.run_plan import RunPlan
from training.runs.settings import read_toml
from training.trainer import TrainConfig

SHIPPED = Path(__file__).parent


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A pretraining run; a key that its TOML file leaves out has the default of its section."""

    seed: Annotated[int, Bound(min=0, below=2**63)] = 0
    """Seeds the initial weights, the order of later epochs, and dropout."""
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    optim: OptimConfig = dataclasses.field(default_factory=OptimConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    parallel: ParallelConfig = dataclasses.field(default_factory=ParallelConfig)
    evaluate: EvaluateConfig = dataclasses.field(default_factory=EvaluateConfig)
    checkpoint: CheckpointConfig = dataclasses.field(default_factory=CheckpointConfig)
    log: LogConfig = dataclasses.field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        check_bounds(self)

    def plan(self, clock: TextClock) -> RunPlan:
        """Return when the run ends, evaluates and saves, by the clock of its text."""
        steps = self.train.total_steps(clock.steps)
        return RunPlan(clock, steps, self.optim.cooldown_of(steps), self.evaluate, self.checkpoint)


def load_config(path: Path) -> RunConfig:
    """Read the config of a run as `read_toml` does; keys left out have their defaults."""
    return read_toml(path, RunConfig, SHIPPED)
