"""A run's whole state in one compressed file, and back: a tar of its folder under Zstandard.

It contains a run's folder unchanged, except that tensors may be rounded to bfloat16.
"""

import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from model.errors import InputError
from model.files.storage import (
    is_stream,
    is_taken,
    naming,
    step_folder,
    whole_folder,
    write_atomically,
)
from model.files.weights import load_tensors, save_tensors
from model.reading.compression import zstandard

from ..metrics import keep_rows
from .named_checkpoints import rows_until, saved_step, whole_checkpoint
from .run_directory import LANES_FILE, TRAINING_FILE, PretrainingDirectory

Kept = Literal["fp32", "bf16"]
PIECE = 1 << 20  # bytes read at a time
REMOVED = "the run has removed it; pack a newer one"
OTHER_FORMATS = (".gz", ".tgz", ".bz2", ".xz", ".zip", ".7z", ".tar")
LEVEL = 10  # of Zstandard; higher ones gain nothing


@dataclass(frozen=True)
class PackedRun:
    """The content of a packed file."""

    step: int
    bytes_before: int  # of the files that are in it
    rounding: Mapping[str, float]  # by file: the largest relative change of a tensor, by norm


def check_packed_name(output: Path, *, overwrite: bool) -> None:
    """Raise InputError for a name that promises another format, or for a file that exists.

    With `overwrite`, the file may exist. A pipe or a device may have any name.
    """
    if is_stream(output):
        return
    if output.suffix.lower() in OTHER_FORMATS:
        raise InputError(
            f"--output {output}: a packed run is a tar archive under Zstandard; let its name end "
            "in .tar.zst"
        )
    if not overwrite and is_taken(output):
        raise InputError(f"{output}: exists already; name another --output, or add --overwrite")


def pack_run(
    folder: Path, output: Path, name: str | None = None, *, weights: Kept, moments: Kept
) -> PackedRun:
    """Write a checkpoint of a run, with everything needed to continue from it.

    The checkpoint is the newest unless named. The run may be training. Raises InputError if
    `folder` is not a run or has no such checkpoint, or if the run removes it meanwhile.
    """
    run = PretrainingDirectory(folder).check_exists()
    checkpoint = whole_checkpoint(run.checkpoints, name)
    if checkpoint is None:
        raise InputError(f"{folder}: has no checkpoint yet; there is nothing to pack")
    step = saved_step(checkpoint)
    with _folder_beside(output) as temporary:
        copied = PretrainingDirectory(temporary)
        shutil.copyfile(run.config, copied.config)
        if (rows := rows_until(run, name)).is_file():
            shutil.copyfile(rows, copied.metrics)
            keep_rows(copied.metrics, step)
        _copy(checkpoint, target := step_folder(copied.checkpoints, step))
        before = sum(path.stat().st_size for path in copied.folder.rglob("*") if path.is_file())
        rounding = {}
        for path in sorted(target.rglob("*.safetensors")):
            kept = weights if path.name == "model.safetensors" else moments
            if kept == "bf16" and path.name != LANES_FILE:
                rounding[path.relative_to(target).as_posix()] = _round(path)
        write_atomically(output, lambda path: _write(copied.folder, path))
    return PackedRun(step, before, rounding)


@contextmanager
def _folder_beside(output: Path) -> Iterator[Path]:
    """Yield a temporary folder for what goes into `output`, which errors in it name."""
    with (
        tempfile.TemporaryDirectory(dir=output.parent) as temporary,
        naming(output, Path(temporary)),
    ):
        yield Path(temporary)


def _copy(checkpoint: Path, target: Path) -> None:
    """Copy a checkpoint; InputError if its run has removed it meanwhile."""
    try:
        shutil.copytree(checkpoint, target)
    except OSError as error:  # also shutil's own error
        if (checkpoint / TRAINING_FILE).exists():
            raise
        raise InputError(f"{checkpoint}: {REMOVED}") from error
    if not (checkpoint / TRAINING_FILE).exists():  # the copy may lack a part
        raise InputError(f"{checkpoint}: {REMOVED}")


def unpack_run(packed: Path, folder: Path) -> None:
    """Unpack a run so that it can be resumed.

    Raises InputError if the file is damaged or is not a packed run, or if the folder is taken.
    """
    if is_taken(folder):
        raise InputError(f"{folder}: exists already; name another --output")
    if folder.parent.is_file():
        raise InputError(f"{folder}: {folder.parent} is a file, not a folder; name another")
    damage = (tarfile.TarError, zstandard().ZstdError, EOFError, ValueError)
    try:
        with whole_folder(folder.resolve(), PretrainingDirectory.files()) as partial:
            with (
                zstandard().open(packed, "rb") as file,
                tarfile.open(fileobj=file, mode="r|") as tar,
            ):
                for member in tar:
                    _extract(tar, member, partial)
                while file.read(PIECE):  # on to the checksum at its end
                    pass
            PretrainingDirectory(partial).check_exists()
    except damage as error:
        raise InputError(f"{packed}: not a packed run, or damaged ({error})") from error


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    target = (folder / member.name).resolve()
    content = tar.extractfile(member) if member.isreg() else None
    if content is None or not target.is_relative_to(folder.resolve()):
        raise InputError(f"{folder}: {member.name!r} does not belong in a packed run")
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, open(target, "wb") as file:
        shutil.copyfileobj(content, file)


def _round(path: Path) -> float:
    """Round a file's matrices and vectors to bfloat16; return the largest relative change."""
    tensors = load_tensors(path)
    rounded = {
        name: t.bfloat16() if t.dtype == torch.float32 and t.ndim else t
        for name, t in tensors.items()
    }
    save_tensors(path, rounded)
    return max((_change(tensors[name], t) for name, t in rounded.items()), default=0.0)


def _change(before: Tensor, after: Tensor) -> float:
    norm = float(before.double().norm())
    return float((after.double() - before.double()).norm()) / norm if norm else 0.0


def _write(folder: Path, output: Path) -> None:
    parameters = zstandard().CompressionParameter
    options = {parameters.compression_level: LEVEL, parameters.checksum_flag: True}
    with (
        zstandard().open(output, "wb", options=options) as file,
        tarfile.open(fileobj=file, mode="w|") as tar,
    ):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())  # no owner, no time
            entry.size = path.stat().st_size
            with open(path, "rb") as content:
                tar.addfile(entry, content)
