"""The checkpoints of pretraining, from which a run continues exactly.

`step-N/` holds a model directory (`model.safetensors`, `config.json`) and the training state:

- `optimizer.safetensors`; if each rank has its own optimiser state, those after the first
  are in `optimizer-1.safetensors` and so on;
- `lanes.safetensors`: the state that each lane carries; the loss (by rank) and the overflows since
  the last row of metrics; the random state;
- `training.json`: progress, loss scale, the corpus's fingerprint.

Rank 0 writes; nothing is ever unpickled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.bounds import PositiveInt, check_bounds
from model.errors import InputError
from model.files.shapes import check_not_negative, check_tensors
from model.files.storage import step_of
from model.files.weights import WEIGHTS_FILE, load_tensors, save_model, save_tensors
from model.state import State
from model.text.profiles import TextProfile
from model.text.tokenizer import BYTES, Tokenizer

from .divergence import check_divergence
from .optimizers.state import flatten_optimizers, restore_optimizers
from .parallel.agreement import through_main
from .parallel.distributed import World
from .precision import restore_loss_scaler
from .progress import PretrainingProgress
from .runs.checkpoint_store import CheckpointStore, advice_if_damaged, restore_weights
from .runs.named_checkpoints import find_checkpoint, saved_step
from .runs.run_directory import (
    LANES_FILE,
    TRAINING_FILE,
    PretrainingDirectory,
    await_visible,
)
from .runs.saved_settings import check_settings
from .trainer import Trainer

CONFIG = "the config asks for"


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """When the run is saved, and how many checkpoints are kept."""

    every_steps: PositiveInt = 400
    """Steps between checkpoints; the end of the run, SIGINT, SIGTERM and SIGHUP also save one."""
    keep: PositiveInt = 2
    """Newest checkpoints to keep. The best model on the valid split is kept separately, in
    model/."""

    def __post_init__(self) -> None:
        check_bounds(self, "checkpoint.")


class Checkpoints(CheckpointStore):
    """The checkpoints of a pretraining."""

    DESCRIPTION_FILE = TRAINING_FILE
    CONTENTS = PretrainingDirectory.CHECKPOINT_FILES
    FORMAT_VERSION = 2  # of several optimiser states; 1 of one

    def __init__(
        self, folder: Path, keep: int, corpus_fingerprint: str, tokenizer: Tokenizer = BYTES
    ):
        super().__init__(folder, keep)
        self.corpus_fingerprint, self.tokenizer = corpus_fingerprint, tokenizer

    def save(self, trainer: Trainer, profile: TextProfile, provenance: dict[str, Any]) -> None:
        """Save everything; called by all ranks, written by the main one."""
        world = trainer.world
        check_divergence(trainer)
        state = trainer.all_lanes()
        nats = world.gather(trainer.nats)  # [ranks]
        optimizers = flatten_optimizers(trainer.optimizers)
        states = trainer.exchange.states
        if not world.is_main:
            states.send_to_main(optimizers, world)
            return
        carried = {
            **state.tensors(),
            "row_nats": nats.view(1, -1, 1),
            "row_overflows": trainer.overflows,
            "random_state": torch.get_rng_state(),
        }
        with self.writing(trainer.progress.step, self._description(trainer)) as partial:
            save_model(partial, trainer.model, profile, provenance, tokenizer=self.tokenizer)
            for index, tensors in enumerate(states.receive(optimizers, world)):
                save_tensors(partial / optimizer_file(index), tensors)
            save_tensors(partial / LANES_FILE, carried)

    def _description(self, trainer: Trainer) -> dict[str, Any]:
        states = trainer.exchange.states
        return {
            "format_version": self.FORMAT_VERSION if states.count > 1 else 1,
            **states.describe(),
            "corpus": self.corpus_fingerprint,
            "progress": trainer.progress.as_json(),
            "loss_scaler": trainer.scaler.state_dict(),
        }

    def check_corpus(self, world: World, name: str | None = None) -> None:
        """Raise InputError, on every rank, if the checkpoint to restore is of another corpus."""

        def check() -> None:
            folder = find_checkpoint(self.folder, name)
            if folder is not None:
                self._describe_of_corpus(folder)

        through_main(world, check)

    def _describe_of_corpus(self, folder: Path) -> tuple[dict[str, Any], Path]:
        with advice_if_damaged(folder):
            content, path = self.describe(folder)
        if content.get("corpus") != self.corpus_fingerprint:
            raise InputError(
                f"{path}: was trained on another corpus ({content.get('corpus')}, now "
                f"{self.corpus_fingerprint}); name that one with --data.corpus or start a new run"
            )
        return content, path

    def restore(self, trainer: Trainer, name: str | None = None) -> bool:
        """Load the newest checkpoint, or that of a name, into the trainer, on every rank.

        Returns False, and loads nothing, if the run ended before its first one: it then starts
        again. Raises InputError, on every rank, if there is none of that name, or if a part of it
        does not fit the model or the config.
        """

        def find() -> str:
            found = find_checkpoint(self.folder, name)
            return "" if found is None else found.name

        found = through_main(trainer.world, find)
        if not found:
            return False
        folder = self.folder / found
        await_visible(folder)
        step = saved_step(folder) if name else step_of(folder)
        content, path = self._describe_of_corpus(folder)
        trainer.exchange.states.check_saved(content, path)
        optimizer = optimizer_file(trainer.exchange.states.index)
        check_settings(trainer, folder, folder / LANES_FILE, folder / optimizer)
        with advice_if_damaged(folder):
            trainer.progress = PretrainingProgress.from_json(content.get("progress"), step, path)
            restore_loss_scaler(trainer.scaler, content.get("loss_scaler"), path)
            _restore_tensors(trainer, folder)
        return True


def _restore_tensors(trainer: Trainer, folder: Path) -> None:
    restore_weights(trainer.model, folder / WEIGHTS_FILE, CONFIG)
    path = folder / optimizer_file(trainer.exchange.states.index)
    restore_optimizers(trainer.optimizers, path)
    _restore_carried(trainer, folder / LANES_FILE)


def _restore_carried(trainer: Trainer, path: Path) -> None:
    # The first checkpoints of format version 1 did not count overflows.
    found = load_tensors(path, like=_expected_carried(trainer, {}))
    carried = {"row_overflows": trainer.overflows, **found}
    check_tensors(path, carried, _expected_carried(trainer, carried), CONFIG)
    check_not_negative(path, carried, {"row_overflows", "row_nats"})
    names = trainer.state.tensors()
    trainer.load_lanes(State(**{name: carried[name] for name in names}))
    trainer.restore_nats(carried["row_nats"].flatten())
    trainer.overflows.copy_(carried["row_overflows"])
    try:
        torch.set_rng_state(carried["random_state"])
    except RuntimeError as error:
        raise InputError(f"{path}: random_state is not one of torch's ({error})") from error


def _expected_carried(trainer: Trainer, carried: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors without content, with the expected shapes and dtypes.

    The number of ranks that saved them and the dtype of the products may differ: a resume may begin
    or stop scaling losses.
    """
    row_nats = carried.get("row_nats")
    dtype = State.dtype_of_products(carried) or trainer.model.dtype
    ranks = row_nats.numel() if row_nats is not None else 1
    meta = torch.device("meta")
    return {
        **trainer.model.initial_state(trainer.lanes, dtype=dtype, device=meta).tensors(),
        "row_nats": torch.empty((1, max(ranks, 1), 1), dtype=torch.float64, device=meta),
        "row_overflows": trainer.overflows,
        "random_state": torch.get_rng_state(),
    }


def optimizer_file(group: int) -> str:
    """Return the name of the file with a group's optimiser; the first has no number."""
    return f"optimizer-{group}.safetensors" if group else "optimizer.safetensors"
