"""Restores a trainer from a checkpoint, exactly; only runs that continue import this."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import WEIGHTS_FILE
from mlstm_sentiment.files.storage import step_of
from model.state import State

from .runs.checkpoint_store import optimizer_file
from .runs.restoring import (
    check_tensors,
    load_tensors,
    restore_optimizers,
    restore_weights,
)
from .runs.run_directory import LANES_FILE, PretrainingDirectory
from .trainer import PretrainingProgress, Trainer

_CONFIG = "the config asks for"


def check_fits(
    trainer: Trainer, architecture: Mapping[str, Any], content: Mapping[str, Any], path: Path
) -> None:
    """Raise InputError for settings in config.toml that an intact checkpoint contradicts.

    Removing the checkpoint would not help: earlier ones contradict the settings, too. architecture:
    of its model. content: the checkpoint's description, of the file `path`; those before December
    2026 have no settings.
    """
    trainer.exchange.states.check_saved(content, path)
    before = _of_model(architecture)
    before |= content.get("settings", {})
    now = _of_model(trainer.model.config.architecture()) | trainer.saved_settings
    different = [
        f"{name} is {value}, was {before[name]}"
        for name, value in now.items()
        if name in before and before[name] != value
    ]
    if different:
        config = PretrainingDirectory(path.parent.parent.parent).config
        values = "value" if len(different) == 1 else "values"
        raise InputError(
            f"{config}: differs from what {path.parent.name} was saved with: "
            f"{', '.join(different)}; put the old {values} back"
        )


def _of_model(architecture: Mapping[str, object]) -> dict[str, object]:
    return {f"model.{name}": value for name, value in architecture.items()}


def restore_trainer(trainer: Trainer, folder: Path, content: Mapping[str, Any], path: Path) -> None:
    """Load a checkpoint; InputError if a part of it does not fit the model or the config.

    content, path: as for `check_fits`.
    """
    progress, optimizer = content.get("progress"), optimizer_file(trainer.exchange.states.index)
    trainer.progress = PretrainingProgress.from_json(progress, step_of(folder), path)
    restore_loss_scaler(trainer.scaler, content.get("loss_scaler", {}))
    restore_weights(trainer.model, folder / WEIGHTS_FILE, _CONFIG)
    restore_optimizers(trainer.optimizers, folder / optimizer)
    _restore_carried(trainer, folder / LANES_FILE)


def _restore_carried(trainer: Trainer, path: Path) -> None:
    # The first checkpoints of format version 1 did not count overflows.
    carried = {"row_overflows": trainer.overflows, **load_tensors(path)}
    check_tensors(path, carried, _expected_carried(trainer, carried), _CONFIG)
    trainer.load_lanes(State(**{name: carried[name] for name in trainer.state.tensors()}))
    trainer.restore_nats(carried["row_nats"].flatten())
    trainer.overflows.copy_(carried["row_overflows"])
    torch.set_rng_state(carried["random_state"])


def _expected_carried(trainer: Trainer, carried: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors without content, with the expected shapes and dtypes.

    Two things are taken from `carried`, since a resume may change them: the number of ranks, and
    the dtype of the products, by starting or stopping loss scaling.
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


def restore_loss_scaler(scaler: torch.amp.GradScaler, saved: Mapping[str, Any]) -> None:
    """Restore the scale from a checkpoint; saved: empty if losses were not scaled."""
    if saved:
        state = {name: saved[name] for name in ("scale", "_growth_tracker")}
        scaler.load_state_dict(scaler.state_dict() | state)
