"""The learning rate of each step: it rises, holds, decays, and may cool down at the end."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from torch.optim import Optimizer

from model.errors import InputError

MOST_STEPS = 10**9  # of a run: of more, the last rates would round to zero

Decay = Literal["linear", "constant"]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rates of a run. OptimConfig describes the fields after `steps`.

    Raises InputError if steps of the run would have a rate of zero or below, and so learn nothing.
    """

    peak: float
    steps: int  # the planned length of the run
    decay: Decay = "linear"
    decay_steps: int | None = None
    warmup: float = 0.0
    hold: float = 0.0
    cooldown_steps: int = 0
    cooldown_begin: int | None = None  # the step after which it begins; None: no cooldown

    def __post_init__(self) -> None:
        if self.rate(self.last_step - 1) > 0:
            return
        if self.cooldown_begin is None and self.decay_steps is None:
            raise InputError(
                f"optim.lr is {self.peak:g}: so low that the last step's rate rounds to zero; give "
                "a higher one"
            )
        if self.cooldown_begin is None:
            raise InputError(
                f"optim.decay_steps is {self.decay_steps:,}, of {self.steps:,} steps: the rest "
                "would have a learning rate of zero; give at least as many as the run has"
            )
        if self.cooldown_begin < 0:
            raise InputError(
                f"optim.cooldown_steps is {self.cooldown_steps:,}, more than the {self.steps:,} "
                "steps of the run; give fewer"
            )
        raise InputError(
            f"the cooldown would begin at step {self.cooldown_begin:,}, where the learning rate is "
            "already zero; begin it earlier, from an earlier checkpoint (--from), or set "
            "optim.decay constant"
        )

    @property
    def last_step(self) -> int:
        """The step at which the run ends: after its cooldown, if it has one."""
        begin = self.cooldown_begin
        return self.steps if begin is None else begin + self.cooldown_steps

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        begin = self.cooldown_begin
        if begin is None:
            return self._before_cooldown(step)
        fallen = min(max(step - begin, 0) / self.cooldown_steps, 1.0)
        return self._before_cooldown(min(step, begin)) * (1 - fallen)

    def _before_cooldown(self, step: int) -> float:
        warmup_steps = self.warmup * self.steps
        if step < warmup_steps:
            return self.peak * (step + 1) / (warmup_steps + 1)
        begin, end = warmup_steps + self.hold * self.steps, self.decay_steps or self.steps
        progress = min(max(step - begin, 0) / max(end - begin, 1), 1.0)
        if self.decay == "linear":
            return self.peak * (1 - progress)
        return self.peak


def set_learning_rate(optimizers: Iterable[Optimizer], rate: float) -> None:
    """Set the rate of the next step; a parameter group's `factor` multiplies it."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)
