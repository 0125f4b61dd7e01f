"""What a training run prints on the console; it continues if the console is closed."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from data_utils.corpus import Corpus
from model.commands.program import drop
from model.text.tokenizer import BYTES

from ..parallel.distributed import World
from ..precision import has_fast_bf16

if TYPE_CHECKING:
    from ..trainer import Trainer

GONE = (errno.EPIPE, errno.EIO)  # a pipe without a reader, a terminal that was closed
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk of a file for stdout


@contextmanager
def outliving_the_reader() -> Iterator[None]:
    """Within this context, printing survives a reader that leaves, and a full disk.

    A `tee`, for instance, leaves after a logout.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (*GONE, *FULL):
            raise
        drop(sys.stdout)
        full = f"stdout takes no more ({error.strerror})"
        reason = full if error.errno in FULL else "nobody reads stdout any more"
        try:
            print(f"{reason}; the training continues", file=sys.stderr, flush=True)
        except OSError:
            drop(sys.stderr)


def say(world: World, line: str) -> None:
    """Print a line, on the main rank only."""
    if world.is_main:
        with outliving_the_reader():
            print(line, flush=True)


def announce(trainer: "Trainer", corpus: Corpus, folder: Path, steps_per_epoch: float) -> None:
    """Print the sizes of the model, the data and the run, and the run's folder."""
    world, model, step = trainer.world, trainer.model, trainer.progress.step
    parameters = sum(parameter.numel() for parameter in model.parameters())
    train = corpus.splits["train"]
    of_vocabulary = f"tokens of {train.tokenizer.fingerprint}"
    unit = "bytes" if train.tokenizer.kind == BYTES.kind else of_vocabulary
    lines = [
        f"{parameters:,} parameters; {train.reviews:,} reviews, {len(train.tokens):,} {unit}; "
        f"{trainer.lanes} lanes on {world.size} x {world.device.type}, "
        f"{str(model.dtype).removeprefix('torch.')}; {trainer.steps:,} steps "
        f"({trainer.steps / steps_per_epoch:.2f} epochs) from step {step:,}",
        f"recurrence: {model.implementation}",
    ]
    if corpus.is_embedded:
        lines.append("the reviews are generated ones, to try it; --data.corpus names real ones")
    if model.dtype == torch.bfloat16 and not has_fast_bf16(world.device):
        lines.append(
            "bf16 is slow on this hardware; --train.precision fp32 is faster, also for a resume"
        )
    lines.append(f"writing to {folder}")
    if step >= trainer.steps:
        begin = trainer.schedule.cooldown_begin
        more = (
            "--train.steps or --train.epochs asks for more"
            if begin is None
            else f"to go on, name a checkpoint before the cooldown, which began at step {begin:,} "
            "(--from)"
        )
        lines.append(f"the run has taken its last step; {more}")
    if not corpus.splits["valid"].reviews:
        lines.append("the corpus has no valid split: nothing is evaluated, model/ is the last one")
    say(world, "\n".join(lines))
