"""The whole description of a run: a composition of the sections that the components own."""

from dataclasses import dataclass, field
from typing import Annotated

from data_utils.lanes import DataConfig
from model.bounds import Bound, check_bounds
from model.language_model import ModelConfig
from training.checkpoint import CheckpointConfig
from training.evaluation import EvaluateConfig
from training.metrics import LogConfig
from training.optimizers.optim import OptimConfig
from training.parallel.exchange import ParallelConfig
from training.trainer import TrainConfig


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A pretraining run; a key that its TOML file leaves out has the default of its section."""

    seed: Annotated[int, Bound(min=0, below=2**63)] = 0
    """Seeds the initial weights and the order of later epochs."""
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
