"""A training that diverges: noticed before anything of it is saved."""

from typing import TYPE_CHECKING

import torch

from model.errors import InputError

from .optimizers.state import flatten_optimizers

if TYPE_CHECKING:
    from .trainer import Trainer


class Diverged(InputError):
    """The loss, or something that a step changes, is no longer finite."""


def diverged(trainer: "Trainer", what_is: str) -> Diverged:
    """Return the error to raise, on every rank, if something is not finite."""
    clip_norm = trainer.optim.clip_norm
    clipping = "with optim.clip_norm"
    if clip_norm is not None:
        clipping = f"an optim.clip_norm below {clip_norm:g}"
    return Diverged(
        f"{what_is} not finite at step {trainer.progress.step}: the training has diverged; start "
        f"again with an optim.lr below {trainer.schedule.peak:g} or {clipping}"
    )


def check_divergence(trainer: "Trainer") -> None:
    """Raise Diverged, on every rank, if anything that a checkpoint would hold is not finite.

    The last step's effect on the weights is not in any loss yet.
    """
    trainer.row_nats()
    kept = [
        *trainer.model.state_dict().values(),
        *flatten_optimizers(trainer.optimizers).values(),
        *trainer.state.tensors().values(),
    ]
    device = trainer.world.device
    finite = torch.stack([tensor.isfinite().all().to(device) for tensor in kept])
    if trainer.world.sum((~finite).sum()):
        raise diverged(trainer, "weights or the optimiser's state are")
