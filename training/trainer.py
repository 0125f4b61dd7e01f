"""One training step: forward, backward, clip, update; and the state that it carries."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from model.errors import InputError
from model.language_model import LanguageModel
from model.state import State

from .distributed import Device, World
from .feeding import Batch
from .objective import Objective
from .optim import OptimConfig, make_optimizers
from .precision import Precision, make_loss_scaler
from .progress import Progress


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long, and in which precision."""

    steps: int | None = None
    """Windows to train on (1,000 unless epochs is given)."""
    epochs: float | None = None
    """Instead of steps: passes over the train split."""
    precision: Precision = "auto"
    """auto is bf16 where the hardware has matrix units for it, else fp32."""
    device: Device = "auto"
    """auto takes a GPU where there is one."""
    start_from: str | None = None
    """A model (directory, run or shipped name) whose weights the run begins from."""
    dropout: float = 0.0
    """Part of the last layer's units that the decoder does not see, drawn anew for each window and
    lane; the recurrence itself always sees all."""

    def __post_init__(self) -> None:
        for name in ("steps", "epochs"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"train.{name} is {value}; it must be above zero and finite")
        if not 0 <= self.dropout < 1:
            raise InputError(f"train.dropout is {self.dropout}; 0 <= dropout < 1")
        if self.steps is not None and self.epochs is not None:
            raise InputError("train.steps and train.epochs exclude each other; give one")

    def total_steps(self, windows_per_epoch: int) -> int:
        """Return the length of the run in steps."""
        if self.epochs is not None:
            return max(1, round(self.epochs * windows_per_epoch))
        return self.steps or 1000


class Trainer:
    """A model under training on this rank's lanes."""

    def __init__(
        self,
        model: LanguageModel,
        *,
        optim: OptimConfig,
        train: TrainConfig,
        world: World,
        lanes: int,
        steps: int,
        seed: int,
    ):
        self.model = model.to(world.device).train()
        self.optim, self.world, self.lanes, self.steps = optim, world, lanes, steps
        self.dropout, self.seed = train.dropout, seed
        objective = Objective(self.model)
        self.parallel = objective if world.size == 1 else DistributedDataParallel(objective)
        self.optimizers = make_optimizers(model, optim)
        self.scaler = make_loss_scaler(train.precision, world)
        share = world.share(lanes)
        self.state = model.initial_state(share.stop - share.start)  # [L, B, H] of own lanes
        self.progress = Progress()
        # Since the last row of metrics, own lanes; kept with the run, so that a resumed one writes
        # the very same row.
        self.nats = torch.zeros((), dtype=torch.float64, device=world.device)

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        return self.optim.learning_rate(step, self.steps, self.lanes)

    def train(self, batch: Batch) -> None:
        """Take one step; nothing here waits for the device."""
        state = self.state.reset(batch.reset)
        nats, state = self.parallel(batch.inputs, batch.targets, state, self._kept())
        self.state = State(*state).detach()
        # DDP averages over ranks; what is wanted is the sum over all lanes per symbol.
        self._update(nats * (self.world.size / batch.transitions))
        self.nats += nats.detach()
        self.progress.step += 1
        self.progress.characters += batch.characters
        self.progress.row_characters += batch.characters

    def _kept(self) -> Tensor | None:
        """Return what dropout multiplies own lanes by, [B, H]: 0, or 1 / (the part kept).

        Drawn for all lanes from the seed and the step, so that ranks and resumes change nothing.
        """
        if not self.dropout:
            return None
        shape = (self.lanes, self.model.config.hidden_size)
        random = np.random.default_rng([self.seed, self.progress.step]).random(shape)
        kept = (random >= self.dropout) / (1 - self.dropout)
        own = torch.from_numpy(kept[self.world.share(self.lanes)])
        return own.to(self.world.device, self.model.dtype)

    def _update(self, loss: Tensor) -> None:
        self.model.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        if self.optim.clip_norm is not None:
            for optimizer in self.optimizers:
                self.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.optim.clip_norm)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.rate_at(self.progress.step) * group.get("factor", 1.0)
            self.scaler.step(optimizer)
        self.scaler.update()

    def row_nats(self) -> float:
        """Return the loss since the last row of metrics, summed over ranks.

        Raises InputError where it is not finite: what follows would only be saved over good work.
        """
        nats = float(self.world.sum(self.nats))
        if not math.isfinite(nats):
            raise InputError(
                f"the training loss is not finite at step {self.progress.step}; lower optim.lr "
                "or set optim.clip_norm, then start again or --resume from the last checkpoint"
            )
        return nats

    def close_row(self) -> dict[str, float]:
        """Return the row of metrics of the steps since the last one, and begin a new one."""
        progress = self.progress
        row = {
            "step": progress.step,
            "characters": progress.characters,
            "train_bits_per_character": self.row_nats() / progress.row_characters / math.log(2),
            "learning_rate": self.rate_at(progress.step - 1),
        }
        progress.row_characters = 0
        self.nats.zero_()
        return row

    def restore_nats(self, by_rank: Tensor) -> None:
        """Take up the open row's loss, [ranks]: this rank's own, where the ranks are as before."""
        if len(by_rank) == self.world.size:
            self.nats.copy_(by_rank[self.world.rank])
        else:
            self.nats.fill_(float(by_rank.sum()) if self.world.is_main else 0.0)
