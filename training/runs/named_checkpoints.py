"""Chooses the checkpoint from which a run continues, and keeps named ones.

Only `step-N` is pruned: a checkpoint under any other name stays until the user removes it.
"""

import filecmp
import logging
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from model.bounds import NonNegativeInt, fill
from model.errors import InputError
from model.files.shipped import CONFIG_FILE
from model.files.storage import (
    first_free,
    read_json,
    recover_folders,
    remove_folder,
    step_folder,
    step_folders,
    whole_folder,
    write_atomically,
)

from .checkpoint_store import advice_if_damaged
from .run_directory import TRAINING_FILE, PretrainingDirectory

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SavedStep:
    """What the description of a checkpoint must say."""

    OTHER_KEYS: ClassVar = True
    step: NonNegativeInt


BEFORE_COOLDOWN = "before-cooldown"


def find_checkpoint(folder: Path, name: str | None) -> Path | None:
    """Return the checkpoint of that name, or the newest; None if a run has none yet.

    Call it on the main rank only. Raises InputError if there is none of that name.
    """
    recover_folders(folder, PretrainingDirectory.files())
    return whole_checkpoint(folder, name)


def whole_checkpoint(folder: Path, name: str | None) -> Path | None:
    """Find a checkpoint as `find_checkpoint` does, read-only: safe while a run is writing."""
    if name is None:
        return next(reversed(step_folders(folder)), None)
    names = checkpoints_in(folder)
    if name not in names:
        raise InputError(f"{folder}: no checkpoint {name}; available: {', '.join(names) or 'none'}")
    return folder / name


def checkpoints_in(folder: Path) -> list[str]:
    """Return the names of all checkpoints."""
    return sorted(path.parent.name for path in folder.glob(f"[!.]*/{TRAINING_FILE}"))


def last_until(folder: Path, step: int) -> Path | None:
    """Return the last checkpoint up to a step; of two at one step, the one before a cooldown."""
    steps = {folder / name: saved_step(folder / name) for name in checkpoints_in(folder)}
    earlier = [path for path, at in steps.items() if at <= step]
    return max(earlier, key=lambda path: (steps[path], BEFORE_COOLDOWN in path.name), default=None)


def saved_step(checkpoint: Path | None) -> int:
    """Return a checkpoint's step, 0 without a checkpoint; InputError if it does not record it."""
    if checkpoint is None:
        return 0
    path = checkpoint / TRAINING_FILE
    with advice_if_damaged(checkpoint):
        content = read_json(path).get("progress")
        return fill(SavedStep, content, path, "progress.").step


def keep_newest(run: PretrainingDirectory, word: str) -> None:
    """Keep copies of the newest checkpoint, of the best model and of the rows of metrics.

    The copy of the checkpoint is called `word-N`, where N is its step; the others are named after
    it. If copies from another branch of the run have that name, a number is added to theirs.
    """
    newest = find_checkpoint(run.checkpoints, None)
    if newest is not None:
        name = newest.name.replace("step", word)
        _make_room(run, name, newest)
        if run.model.is_dir():
            _copy(run.model, _model_copy(run, name))
        if run.metrics.is_file():
            _copy_rows(run.metrics, _rows_copy(run, name))
        _copy(newest, run.checkpoints / name)


def rows_until(run: PretrainingDirectory, name: str | None) -> Path:
    """Return the file with the rows of metrics that led to a checkpoint, and perhaps later ones.

    A copy kept with the checkpoint comes first, since the run may have gone on from elsewhere.
    """
    rows = None if name is None else _rows_copy(run, name)
    return rows if rows is not None and rows.is_file() else run.metrics


def _make_room(run: PretrainingDirectory, name: str, newest: Path) -> None:
    copy = run.checkpoints / name
    if copy.is_dir() and not _same_files(copy, newest):
        free = _free(copy)
        for path_for in (_model_copy, _rows_copy):
            if (path := path_for(run, name)).exists():
                path.rename(path_for(run, free.name))
        copy.rename(free)
        log.info("%s: belongs to another branch of the run; renamed to %s", copy, free.name)


def go_back(run: PretrainingDirectory, name: str) -> None:
    """Make a checkpoint the newest of its run; move what came after it to a run of its own.

    The config, the rows, the model and the later checkpoints go to `aside-step-N/` in the run's
    folder, N being the last step there, or to `aside-step-N-2/` if that name is taken. A different
    checkpoint of the same step is from another branch and counts as later. If the run has not come
    as far as this step, all of its checkpoints count as later. The model stays only if it was the
    best at the checkpoint; otherwise the copy kept with the checkpoint is restored if it was. Rows
    kept with the checkpoint are restored, too. A kill loses nothing.
    """
    checkpoint = run.checkpoints / name
    step, own = saved_step(checkpoint), step_folders(run.checkpoints)
    newest = step_folder(run.checkpoints, step)
    has_come_as_far = any(saved_step(path) >= step for path in own)
    later = [path for path in own if saved_step(path) > step] if has_come_as_far else own
    other = [newest] if newest.is_dir() and not _same_files(newest, checkpoint) else []
    of_model = _provenance(run.model).get("step")  # which may be newer than any checkpoint
    last = max([of_model if type(of_model) is int else 0, *map(saved_step, other + later)])
    if other or later or last > step:
        aside = step_folder(run.folder, last).name
        _copy_run(run, _free(run.folder / f"aside-{aside}"), other + later)
        if not _is_best_of(run.model, checkpoint):  # first, in case of a kill
            remove_folder(run.model)
    if not run.model.is_dir() and _is_best_of(_model_copy(run, name), checkpoint):
        _copy(_model_copy(run, name), run.model)
    if name != newest.name:
        _copy(checkpoint, newest)
    for path in later:
        remove_folder(path)
    if (rows := rows_until(run, name)) != run.metrics:
        _copy_rows(rows, run.metrics)  # last: until then, a repetition would take them aside


def _model_copy(run: PretrainingDirectory, name: str) -> Path:
    """Return the folder of the best model from the time of a named checkpoint."""
    return run.folder / f"model-{name}"


def _rows_copy(run: PretrainingDirectory, name: str) -> Path:
    """Return the file of the rows of metrics from the time of a named checkpoint."""
    return run.folder / f"metrics-{name}.jsonl"


def _is_best_of(model: Path, checkpoint: Path) -> bool:
    """Return whether a model was its run's best when a checkpoint was saved."""
    progress = read_json(checkpoint / TRAINING_FILE)["progress"]
    return has_score(model, progress.get("best_bits_per_character"))


def has_score(model: Path, bits: float | None) -> bool:
    """Return whether a model exists and records this score as the best."""
    return bits is not None and bits == _provenance(model).get("best_valid_bits_per_character")


def _provenance(model: Path) -> dict[str, Any]:
    """Return a model's record of its origin; nothing if the model or the record is absent."""
    with suppress(InputError):
        provenance = read_json(model / CONFIG_FILE).get("provenance")
        return provenance if isinstance(provenance, dict) else {}
    return {}


def _same_files(one: Path, other: Path) -> bool:
    """Return whether two folders have the same files, byte for byte."""
    names, others = (
        sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        for folder in (one, other)
    )
    if names != others:
        return False
    return not any(filecmp.cmpfiles(one, other, names, shallow=False)[1:])


def _free(folder: Path) -> Path:
    """Return the folder, or its name with the first free number."""
    (free,) = first_free(lambda n: [folder.with_name(f"{folder.name}-{n}") if n > 1 else folder])
    return free


def _copy_run(run: PretrainingDirectory, aside: Path, checkpoints: list[Path]) -> None:
    with whole_folder(aside, run.files()) as partial:
        copied = PretrainingDirectory(partial)
        for path in (run.config, run.metrics):
            if path.exists():
                shutil.copyfile(path, partial / path.name)
        if run.model.is_dir():
            shutil.copytree(run.model, copied.model)
        for path in checkpoints:
            shutil.copytree(path, copied.checkpoints / path.name)


def _copy(source: Path, target: Path) -> None:
    with whole_folder(target, PretrainingDirectory.files()) as partial:
        shutil.copytree(source, partial, dirs_exist_ok=True)


def _copy_rows(source: Path, target: Path) -> None:
    write_atomically(target, lambda temporary: shutil.copyfile(source, temporary))
