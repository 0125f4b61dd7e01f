"""Compares a checkpoint with the config of its run, which may have been edited or cut since."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import device

from model.errors import InputError
from model.files.layout import CONFIG_FILE
from model.files.shapes import Shape
from model.files.storage import read_json

from ..optimizers.state import OF_ONE_STEP, flatten_optimizers
from ..trainer import Trainer
from .checkpoint_store import advice_if_damaged
from .run_directory import PretrainingDirectory

OF_AN_OPTIMISER = re.compile(r"\d+\.\w+")  # the name of a tensor in its file
FEW = 2  # names that damage to a header may add or remove; another optimiser differs in more


def check_settings(trainer: Trainer, checkpoint: Path, lanes: Path, optimizer: Path) -> None:
    """Raise InputError for settings in config.toml that an intact checkpoint contradicts.

    Removing the checkpoint would mend nothing: those before it contradict them as well.

    lanes, optimizer: files of the checkpoint. What is damaged there is left to those who load it.
    """
    different = list(_of_model(trainer, checkpoint))
    if not different:  # in another model the same lanes and optimiser have other tensors
        different = [*_of_lanes(trainer, lanes), *_of_optimizer(trainer, optimizer)]
    if different:
        config = PretrainingDirectory(checkpoint.parent.parent).config
        values = "value" if len(different) == 1 else "values"
        raise InputError(
            f"{config}: differs from what {checkpoint.name} was saved with: "
            f"{', '.join(different)}; put the old {values} back"
        )


def _of_model(trainer: Trainer, checkpoint: Path) -> Iterator[str]:
    path = checkpoint / CONFIG_FILE
    with advice_if_damaged(checkpoint):
        saved = read_json(path).get("architecture")
        if not isinstance(saved, dict):
            raise InputError(f"{path}: has no architecture section; is the file damaged?")
    for name, value in trainer.model.config.architecture().items():
        if name in saved and saved[name] != value:
            yield f"model.{name} is {value}, was {saved[name]}"


def _of_lanes(trainer: Trainer, path: Path) -> Iterator[str]:
    state = trainer.model.initial_state(trainer.lanes, device=device("meta")).tensors()
    found = _shapes_in(path)
    shapes = {name: found.get(name, ()) for name in state}
    counts = {shape[1] for shape in shapes.values() if len(shape) == 3}
    for lanes in counts - {trainer.lanes} if len(counts) == 1 else ():
        if all(shapes[name] == (len(t), lanes, t.shape[2]) for name, t in state.items()):
            yield f"data.lanes is {trainer.lanes}, was {lanes}"


def _of_optimizer(trainer: Trainer, path: Path) -> Iterator[str]:
    saved = {name for name in _shapes_in(path) if name.split(".")[-1] not in OF_ONE_STEP}
    if not saved or not all(map(OF_AN_OPTIMISER.fullmatch, saved)):
        return
    if len(saved ^ flatten_optimizers(trainer.optimizers).keys()) > FEW:
        yield f"[optim] describes another optimiser, {trainer.optim.name}"


def _shapes_in(path: Path) -> dict[str, Shape]:
    """Return the shapes of a file's tensors, of which none is read; nothing if it is damaged."""
    if not path.is_file():  # opening a pipe would wait
        return {}
    unreadable = (SafetensorError, OSError, RuntimeError)  # torch cannot map a file far too large
    with suppress(*unreadable), safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return {}
