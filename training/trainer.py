"""One training step: forward, backward, clip, update; and the state carried to the next."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from mlstm_sentiment.bounds import (
    Bound,
    Closed,
    Fraction,
    NonNegativeInt,
    check_bounds,
)
from mlstm_sentiment.errors import InputError
from model.layers.config import TrainingPrecision
from model.layers.language_model import LanguageModel
from model.layers.layer import PerGateParameters
from model.state import DTYPES, IGNORED, State

from .judgement import RECENT_ROWS, spike_bits
from .optimizers.optim import MOST_STEPS, OptimConfig, make_optimizers, set_learning_rate
from .parallel.batch import Batch, copied
from .parallel.distributed import TrainingDevice, World, rebalanced_shares
from .parallel.exchange import Exchange, ParallelConfig, gradients_of
from .precision import (
    LOWEST_SCALE,
    agreed_muon_dtype,
    make_loss_scaler,
    overflow_together,
    sums_in_fp32,
)
from .runs.checkpoint_store import Progress, flatten_optimizers


class Diverged(InputError):
    """The loss, or something that a step changes, is no longer finite."""


def draw_dropout_mask(
    dropout: float, *, seed: int, window: int, lanes: slice, units: int
) -> Tensor:
    """Return the units that dropout keeps in a window, bool [B, H].

    dropout: the fraction that it hides. window: its number, from the start of the run. The numbers
    of a lane do not depend on which other lanes are asked for.
    """
    # Each lane has its place in the window's stream; a double takes one step of PCG64.
    stream = np.random.PCG64([seed, window]).advance(lanes.start * units)
    random = np.random.Generator(stream).random((lanes.stop - lanes.start, units))
    return torch.from_numpy(random >= dropout)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long the model is trained, and in which precision."""

    CLOSED: ClassVar = {"on_spike": Closed("94c10db0", "report")}
    EXCLUSIVE: ClassVar = ("steps", "epochs")

    steps: Annotated[int, Bound(min=1, max=MOST_STEPS)] | None = None
    """Steps, each of parallel.windows_per_step windows. Default: 1,000, unless epochs is given."""
    epochs: Annotated[float, Bound(above=0, max=MOST_STEPS)] | None = None
    """Epochs, each the whole train split once, instead of steps."""
    precision: TrainingPrecision = "auto"
    """auto takes bf16 if the hardware multiplies it faster than fp32, else fp32."""
    device: TrainingDevice = "auto"
    """auto takes a CUDA GPU, if any; training does not use Apple's."""
    timeout_seconds: Annotated[float, Bound(above=0, max=1e6)] = 300.0
    """Longest time that a rank waits for its peers before it treats them as lost. It must be longer
    than the main rank needs to save a checkpoint or to fit a probe's regression, while the others
    wait."""
    start_from: str | None = None
    """A model (directory, run or shipped name) from whose weights the run begins."""
    dropout: Fraction = 0.0
    """Fraction of the last layer's units that are hidden from the decoder, drawn for each window
    and lane; the recurrence itself always sees all."""

    def __post_init__(self) -> None:
        check_bounds(self, "train.")

    def total_steps(self, steps_of: Callable[[float], int]) -> int:
        """Return the length of the run in steps; steps_of: those that read so many epochs."""
        if self.epochs is None:
            return self.steps or 1000
        steps = steps_of(self.epochs)
        if steps > MOST_STEPS:
            raise InputError(
                f"train.epochs is {self.epochs:g}: {steps:,} steps, of which a run may have "
                f"{MOST_STEPS:,}; give fewer"
            )
        return steps


@dataclass
class PretrainingProgress(Progress):
    """The progress of a pretraining; its step is its place in the data."""

    CLOSED: ClassVar = {"skipped_windows": Closed("94c10db0", 0, is_counter=True)}

    characters: NonNegativeInt = 0  # bytes of text trained so far, over all ranks
    best_bits_per_character: float | None = None  # on valid
    row_characters: NonNegativeInt = 0  # the same, since the last row of metrics
    began_from: dict[str, Any] | None = None  # the origin of the first weights, if another model's
    recent_bits: list[float] = field(default_factory=list)  # per character, of the last rows
    open_row: dict[str, Any] | None = None  # of metrics, at this step, which lacks its evaluation

    @classmethod
    def from_json(cls, content: object, step: int, path: Path) -> Self:
        if isinstance(content, dict):
            # Older checkpoints do not have these.
            nothing = dict.fromkeys(("began_from", "open_row"))
            content = {**nothing, "recent_bits": [], **content}
        return super().from_json(content, step, path)


def make_exchange(
    model: LanguageModel,
    config: ParallelConfig,
    world: World,
    loss_of_one_token: Callable[[PerGateParameters], Tensor],
) -> Exchange:
    """Return the strategy that combines the ranks' gradients.

    A single process has nothing to exchange. All ranks call it together. Raises InputError if the
    ranks cannot be combined as configured.

    loss_of_one_token: computes any loss whose gradients reach all the tensors it is given.
    """
    if world.size == 1:
        return Exchange(world)
    parameters, is_adasum = list(model.parameters()), config.combine == "adasum"
    if is_adasum or config.flat:  # DDP does so by itself
        for parameter in parameters:  # every rank gets the main rank's
            dist.broadcast(parameter.detach(), src=0)
    if is_adasum:  # every way is imported by the runs that use it
        from .parallel.adasum import AdasumExchange

        return AdasumExchange(parameters, world)
    from .parallel.buckets import BucketedExchange, FlatExchange

    dtype = DTYPES.get(config.compression, torch.float32)
    if config.flat:
        return FlatExchange(parameters, world, dtype)
    leaves = model.per_gate_parameters()
    return BucketedExchange(leaves, world, dtype, config.bucket_cap_mb, loss_of_one_token)


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
        parallel: ParallelConfig = ParallelConfig(),  # noqa: B008 - frozen
    ):
        self.model = model.to(world.device).train()
        self.optim, self.world, self.lanes = optim, world, lanes
        self.dropout, self.seed = train.dropout, seed
        self.parallel = parallel
        self.exchange = make_exchange(self.model, parallel, world, self._loss_of_one_token)
        # The learning rate of each step, by the number of lanes that a gradient averages.
        self.schedule = optim.schedule(steps, self.exchange.lanes_averaged(lanes))
        self.optimizers = make_optimizers(
            model, optim, lambda: agreed_muon_dtype(world, model.dtype)
        )
        self.scaler = make_loss_scaler(train.precision, world, parallel)
        self.state = model.initial_state(self.own_lanes or 1)  # without lanes, one of padding
        self.progress = PretrainingProgress()
        # This rank's sums since the last metrics row; checkpointed so that a resumed run writes
        # the same row.
        self.nats = torch.zeros((), dtype=torch.float64, device=world.device)
        self.overflows = torch.zeros((), dtype=torch.int64, device=world.device)  # steps skipped
        self.gradient_norm: Tensor | None = None  # of the last step, if gradients are clipped

    @property
    def own(self) -> slice:
        return self.world.own_slice(self.lanes)

    @property
    def own_lanes(self) -> int:
        return self.own.stop - self.own.start

    @property
    def own_fraction(self) -> float:
        return self.own_lanes / self.lanes

    @property
    def window(self) -> int:
        """The next window to train on, counted from the start of the run."""
        return self.progress.step * self.parallel.windows_per_step

    @property
    def saved_settings(self) -> dict[str, object]:
        """What the tensors of a checkpoint depend on, besides the model's architecture."""
        return {"data.lanes": self.lanes, "optim.name": self.optim.name}

    @sums_in_fp32()
    def train(self, *batches: Batch) -> None:
        """Take one step on successive windows; nothing here waits for the device.

        But for the loss scaler of fp16: with sgd, muon and lamb it asks the device for an overflow.

        If only a fraction of a window is text, as at the end of an epoch, the schedule's rate is
        multiplied by that fraction, just as optim.lr's default, below its cap, is proportional to
        the lanes. Otherwise a window of few tokens would move the weights as far as a full one. The
        gradient is multiplied by the fraction, too. Otherwise the few tokens would determine the
        momentum, and the first steps of the next epoch would follow it at the full rate.
        """
        self.model.zero_grad(set_to_none=True)
        active_fraction = sum(batch.active_fraction for batch in batches) / len(batches)
        scale = self.exchange.gradient_scale(batches) * active_fraction
        for number, batch in enumerate(batches):
            last = number == len(batches) - 1
            self._accumulate_gradient(batch, self._dropout_factors(number), scale, last=last)
        self._update(active_fraction)
        characters = sum(batch.characters for batch in batches)
        self.progress.step += 1
        self.progress.characters += characters
        self.progress.row_characters += characters

    def _accumulate_gradient(
        self, batch: Batch, factors: Tensor | None, scale: float | Tensor, *, last: bool
    ) -> None:
        """Add the gradient of a window's nats, times `scale`, micro-batch by micro-batch.

        factors: of dropout. last: whether this is the step's last window. The ranks' gradients are
        combined during the backward pass of its last micro-batch.
        """
        state = self.state.reset(batch.reset)
        after: list[State] = []
        lanes_here = len(batch.inputs)
        micro_batches = self._micro_batches(lanes_here)
        total = micro_batches[-1].stop
        inputs, targets = _padded(batch.inputs, total), _padded(batch.targets, total, IGNORED)
        state = state.each(lambda tensor: _padded(tensor, total))
        factors = None if factors is None else _padded(factors, total)
        for number, lanes in enumerate(micro_batches):
            nats, ended = self.model.loss(
                inputs[lanes],
                targets[lanes],
                state.select(lanes),
                None if factors is None else factors[lanes],
                self.exchange.leaves,
                gradient_scale=scale,
            )
            exchanging = last and number == len(micro_batches) - 1
            with self.exchange.during_backward() if exchanging else nullcontext():
                self.scaler.scale(nats).backward()
            after.append(ended.detach())
            self.nats += nats.detach()
        self.state = State.join(after)
        if total > lanes_here:
            self.state = self.state.each(lambda tensor: tensor[..., :lanes_here, :].contiguous())

    def _loss_of_one_token(self, leaves: PerGateParameters) -> Tensor:
        token = torch.zeros(1, 1, dtype=torch.int64, device=self.world.device)
        nats, _ = self.model.loss(token, token, self.model.initial_state(1), leaves=leaves)
        return nats

    def _micro_batches(self, lanes: int) -> list[slice]:
        """Return the lanes of each of the `parallel.lane_groups` micro-batches.

        All are equal, beyond the last lane if need be: captured windows have one size.
        """
        size = -(-lanes // min(self.parallel.lane_groups, lanes))
        return [slice(first, first + size) for first in range(0, lanes, size)]

    def _dropout_factors(self, number: int) -> Tensor | None:
        """Return dropout's factors for own lanes, [B, H]: 0, or 1 / (the fraction kept).

        They depend only on the seed and on the window, the step's `number`-th, so neither the
        number of ranks nor a resume changes them.
        """
        if not (self.dropout and self.own_lanes):
            return None
        window = self.window + number
        units, device = self.model.config.hidden_size, self.world.device
        mask = draw_dropout_mask(
            self.dropout, seed=self.seed, window=window, lanes=self.own, units=units
        )
        zeros = torch.zeros(mask.shape, dtype=self.model.dtype, device=device)
        return zeros.masked_fill_(copied(mask, device), 1 / (1 - self.dropout))

    def _update(self, active_fraction: float) -> None:
        if self.scaler.is_enabled():
            overflow_together(
                gradients_of(self.model.parameters()), self.exchange.overflow_on_any_rank
            )
        for optimizer in self.optimizers:
            self.scaler.unscale_(optimizer)
        if self.optim.clip_norm is not None:
            parameters = self.model.parameters()
            self.gradient_norm = torch.nn.utils.clip_grad_norm_(parameters, self.optim.clip_norm)
        rate = self.schedule.rate(self.progress.step)
        set_learning_rate(self.optimizers, rate * active_fraction)
        with self.exchange.during_update():
            for optimizer in self.optimizers:
                self.scaler.step(optimizer)
        self._update_scale()

    def _update_scale(self) -> None:
        """Lower the loss scale after an overflow, or raise it; count overflows on the device."""
        if not self.scaler.is_enabled():
            return
        one = torch.ones((), device=self.world.device)
        before = self.scaler.scale(one)
        self.scaler.update()
        self.overflows += self.scaler.scale(one) < before

    def row_nats(self) -> float:
        """Return the loss since the last row of metrics, summed over ranks.

        Raises Diverged, on every rank, if it is not finite, or if gradients overflow at
        the lowest loss scale.
        """
        nats = float(self.world.sum(self.nats))
        if not math.isfinite(nats):
            raise self.diverged("the training loss is")
        if self.scaler.is_enabled() and self.scaler.get_scale() < LOWEST_SCALE:
            raise self.diverged("at the lowest loss scale, gradients are still")
        return nats

    def diverged(self, what_is: str) -> Diverged:
        """Return the error to raise, on every rank, if something is not finite."""
        return Diverged(f"{what_is} not finite at step {self.progress.step}: {self.divergence}")

    @property
    def divergence(self) -> str:
        """The end of an error: that the training has diverged, and what to change."""
        clip_norm = self.optim.clip_norm
        clipping = "with optim.clip_norm"
        if clip_norm is not None:
            clipping = f"an optim.clip_norm below {clip_norm:g}"
        return (
            "the training has diverged; start again with an optim.lr below "
            f"{self.schedule.peak:g} or {clipping}"
        )

    def check_divergence(self) -> None:
        """Raise Diverged, on every rank, if anything that a checkpoint would hold is not finite.

        No loss shows yet how the last step changed the weights.
        """
        self.row_nats()
        saved = [
            *self.model.state_dict().values(),
            *flatten_optimizers(self.optimizers).values(),
            *self.state.tensors().values(),
        ]
        finite = torch.stack([tensor.isfinite().all().to(self.world.device) for tensor in saved])
        if self.world.sum((~finite).sum()):
            raise self.diverged("weights or the optimiser's state are")

    def line(self) -> dict[str, float]:
        """Return the row of metrics so far, which goes on; a line on the console prints it.

        All ranks call it together. Raises Diverged, on each, if the loss is not finite.
        """
        progress = self.progress
        return {
            "step": progress.step,
            "characters": progress.characters,
            "train_bits_per_character": self.row_nats() / progress.row_characters / math.log(2),
            "learning_rate": self.schedule.rate(progress.step - 1),
        }

    def close_row(self) -> dict[str, float]:
        """Return the row of metrics of the steps since the last one, and begin a new one.

        The learning rate is the schedule's, as used for a full window. The gradient norm is the
        last step's, before clipping. If losses are scaled, the row also has the scale, and how many
        of its steps overflowed and so did not change the weights. A spike of the loss is stated as
        the bits by which it exceeds recent rows (`spike_bits`).
        """
        progress, row = self.progress, self.line()
        bits = row["train_bits_per_character"]
        spike = spike_bits(bits, progress.recent_bits, progress.row_characters)
        progress.recent_bits = [*progress.recent_bits, bits][-RECENT_ROWS:]
        if spike is not None:
            row["spike_bits"] = spike
        norm = self.gradient_norm
        if norm is None:  # computed only once per row, it costs next to nothing
            norm = torch.nn.utils.get_total_norm(gradients_of(self.model.parameters()))
        if norm.isfinite():  # unless the last step overflowed
            row["gradient_norm"] = float(norm)
        if self.scaler.is_enabled():
            row["loss_scale"] = self.scaler.get_scale()
            row["overflows"] = int(self.overflows)
        progress.row_characters = 0
        self.nats.zero_()
        self.overflows.zero_()
        return row

    def load_lanes(self, state: State) -> None:
        """Continue from the state [L, lanes, H] of all lanes."""
        zero = self.model.initial_state(1)
        self.state = state.select(self.own).like(zero) if self.own_lanes else zero

    def all_lanes(self, *, everywhere: bool = True) -> State:
        """Return the state of all lanes, [L, lanes, n], on every rank or only on the main one."""
        return self.state.each(
            lambda tensor: self.world.gather_lanes(tensor, self.lanes, everywhere=everywhere)
        )

    def balance(self, speeds: Sequence[float]) -> bool:
        """Divide the lanes by measured shares if that saves enough time; return whether it did.

        speeds: of each rank; none before they are measured. All ranks call it together.
        """
        if self.parallel.shares != "measured" or not speeds:
            return False
        slices = [self.world.slice_of(rank, self.lanes) for rank in range(self.world.size)]
        counts = [own.stop - own.start for own in slices]
        shares = rebalanced_shares(speeds, counts, self.lanes)
        if shares is not None:
            self.divide_lanes(shares)
        return shares is not None

    def divide_lanes(self, shares: tuple[float, ...]) -> None:
        """Divide the lanes again; their states move with them. All ranks call it together."""
        state = self.all_lanes()
        self.world = replace(self.world, shares=shares)
        self.load_lanes(state)

    def restore_nats(self, by_rank: Tensor) -> None:
        """Continue the loss sum of a row of metrics that was not complete at the save.

        by_rank: [ranks at the save]. Each rank takes its own if there are as many ranks now; else
        the main rank takes the sum.
        """
        if len(by_rank) == self.world.size:
            self.nats.copy_(by_rank[self.world.rank])
        else:
            self.nats.fill_(float(by_rank.sum()) if self.world.is_main else 0.0)


def _padded(tensor: Tensor, lanes: int, value: float = 0) -> Tensor:
    """Return [..., B, n] with so many lanes, the additional ones filled with a value."""
    missing = lanes - tensor.shape[-2]
    return torch.nn.functional.pad(tensor, (0, 0, 0, missing), value=value) if missing else tensor
