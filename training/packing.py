"""What a run needs to resume, in one compressed file, and back: a tar archive under Zstandard.

It has the config, one checkpoint (as `step-N`) and the rows of metrics up to it. Tensors may be
rounded to bfloat16. Not in it: the best model (`model/`), other checkpoints, TensorBoard's events.
"""

import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import torch
from torch import Tensor

from model.errors import InputError
from model.files.storage import (
    STEP_FOLDER,
    is_stream,
    is_taken,
    path_in_oserrors,
    read_json,
    step_folder,
    whole_folder,
    write_atomically,
)
from model.files.weights import check_length, load_tensors, save_tensors
from model.reading.compression import zstandard

from .metrics import keep_rows
from .runs.checkpoint_store import advice_if_damaged
from .runs.named_checkpoints import rows_until, saved_step, whole_checkpoint
from .runs.run_directory import LANES_FILE, TRAINING_FILE, PretrainingDirectory

SavedDtype = Literal["fp32", "bf16"]
PIECE = 1 << 20  # bytes read at a time
REMOVED = "the run removed it meanwhile; pack a newer one"
OTHER_FORMATS = (".gz", ".tgz", ".bz2", ".xz", ".zip", ".7z", ".tar")
LEVEL = 10  # of Zstandard; higher ones gain nothing
# Trained weights hardly compress: a file that expands by more than this factor is not a run.
MOST_EXPANSION = 1000
# The files of a checkpoint that every one has.
OF_CHECKPOINT = (
    *(f"{name}.safetensors" for name in ("model", "optimizer", "lanes")),
    *("config.json", "training.json"),
)
# All files that a packed run may have, by their names in it.
MEMBER = re.compile(
    rf"config\.toml|metrics\.jsonl|checkpoint/{STEP_FOLDER.pattern}/(training\.json"
    r"|lanes\.safetensors|optimizer(-[1-9][0-9]{0,3})?\.safetensors"
    r"|(ema/)?(config\.json|model\.safetensors|tokenizer\.model))",
    re.ASCII,
)


@dataclass(frozen=True)
class PackedRun:
    """The content of a packed file."""

    step: int
    bytes_before: int  # of the packed files, before rounding and compression
    rounding: Mapping[str, float]  # by file: the largest relative change of a tensor, by norm


def check_packed_name(output: Path, *, overwrite: bool) -> None:
    """Raise InputError for a name that promises another format, or for a file that exists.

    With `overwrite`, the file may exist. A pipe or a device may have any name.
    """
    if is_stream(output):
        return
    if output.suffix.lower() in OTHER_FORMATS:
        raise InputError(
            f"--output {output}: a packed run is a tar archive under Zstandard; rename it to end "
            "in .tar.zst"
        )
    if not overwrite and is_taken(output):
        raise InputError(f"{output}: exists already; name another --output, or add --overwrite")


def pack_run(
    folder: Path, output: Path, name: str | None = None, *, weights: SavedDtype, moments: SavedDtype
) -> PackedRun:
    """Write a checkpoint of a run, with everything needed to continue from it.

    The checkpoint is the newest unless named. The run may be training. Raises InputError if
    `folder` is not a run, if it has no such checkpoint or a damaged one, or if the run removes it
    meanwhile.
    weights, moments: the dtype of the model's weights and of all optimizer state; the lanes' states
    are never rounded.
    """
    run = PretrainingDirectory(folder).check_exists()
    checkpoint = whole_checkpoint(run.checkpoints, name)
    if checkpoint is None:
        raise InputError(f"{folder}: has no checkpoint yet; there is nothing to pack")
    step = saved_step(checkpoint)
    with _temporary_folder(output) as temporary:
        copied = PretrainingDirectory(temporary)
        shutil.copyfile(run.config, copied.config)
        if (rows := rows_until(run, name)).is_file():
            shutil.copyfile(rows, copied.metrics)
            keep_rows(copied.metrics, step)
        _copy(checkpoint, target := step_folder(copied.checkpoints, step))
        paths = sorted(path for path in temporary.rglob("*") if path.is_file())
        # Others in a checkpoint's folder are not the run's.
        files = [p for p in paths if MEMBER.fullmatch(p.relative_to(temporary).as_posix())]
        before = sum(path.stat().st_size for path in files)
        rounding = {}
        for path in files:
            if path.suffix != ".safetensors":
                continue
            dtype = weights if path.name == "model.safetensors" else moments
            if dtype == "bf16" and path.name != LANES_FILE:
                rounding[path.relative_to(target).as_posix()] = _round(path)
        write_atomically(output, lambda path: _write(files, copied.folder, path))
    return PackedRun(step, before, rounding)


@contextmanager
def _temporary_folder(output: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `output`; OSErrors inside name `output` instead."""
    with (
        tempfile.TemporaryDirectory(dir=output.parent) as temporary,
        path_in_oserrors(output, Path(temporary)),
    ):
        yield Path(temporary)


def _copy(checkpoint: Path, target: Path) -> None:
    """Copy a checkpoint; InputError if it is damaged or its run has removed it meanwhile."""
    try:
        shutil.copytree(checkpoint, target)
        _check_whole(checkpoint)
    except (InputError, OSError) as error:  # also shutil's own error
        if (checkpoint / TRAINING_FILE).exists():
            raise
        raise InputError(f"{checkpoint}: {REMOVED}") from error
    if not (checkpoint / TRAINING_FILE).exists():  # the copy may lack a part
        raise InputError(f"{checkpoint}: {REMOVED}")


def _check_whole(checkpoint: Path) -> None:
    """Raise InputError if a file of a checkpoint is missing, damaged or cut short."""
    paths = [checkpoint / name for name in OF_CHECKPOINT]
    with advice_if_damaged(checkpoint):
        for path in [*paths, *checkpoint.glob("optimizer-[1-9]*.safetensors")]:
            check = read_json if path.suffix == ".json" else check_length
            check(path)


def unpack_run(packed: Path, folder: Path) -> None:
    """Unpack a run; InputError if the file is damaged or no packed run, or the folder is taken."""
    if is_taken(folder):
        raise InputError(f"{folder}: exists already; name another --output")
    if folder.parent.is_file():
        raise InputError(f"{folder}: {folder.parent} is a file, not a folder; name another")
    damage = (tarfile.TarError, zstandard().ZstdError, EOFError, ValueError)
    try:
        with (
            whole_folder(folder.resolve(), PretrainingDirectory.files()) as partial,
            zstandard().open(packed, "rb") as file,
        ):
            _extract(file, partial, MOST_EXPANSION * packed.stat().st_size)
    except damage as error:
        raise InputError(f"{packed}: not a packed run, or damaged ({error})") from error


def _extract(file: IO[bytes], folder: Path, most: int) -> None:
    """Extract the files of a run, at most `most` bytes in all; ValueError if it is not a run.

    Each header is parsed by itself: tarfile would follow headers that rename or describe the next
    one, whatever their length and depth.
    """
    names: set[str] = set()
    while (block := file.read(tarfile.BLOCKSIZE)) != bytes(tarfile.BLOCKSIZE):
        entry = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        is_file = entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE)
        if not is_file or not MEMBER.fullmatch(entry.name):
            raise ValueError(f"{entry.name!r} does not belong in it")
        if entry.name in names:
            raise ValueError(f"{entry.name!r} is in it twice")
        most -= entry.size
        if entry.size < 0 or most < 0:
            raise ValueError(f"it unpacks to more than {MOST_EXPANSION:,} times its size")
        names.add(entry.name)
        target = folder / entry.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "wb") as copy:
            while left := entry.size - copy.tell():
                copy.write(_exactly(file, min(left, PIECE)))
        _exactly(file, -entry.size % tarfile.BLOCKSIZE)
    rest = file.read(tarfile.RECORDSIZE)  # reads on, so that the checksum at the end is checked
    if len(rest) == tarfile.RECORDSIZE or any(rest):
        raise ValueError("something follows its end")
    _check_complete(names)


def _exactly(file: IO[bytes], size: int) -> bytes:
    """Return the next bytes; EOFError if there are fewer."""
    content = file.read(size)
    if len(content) < size:
        raise EOFError("it is cut short")
    return content


def _check_complete(names: Set[str]) -> None:
    """Raise ValueError unless the files are a run with one whole checkpoint."""
    folders = {name.rpartition("/training.json")[0] for name in names} - {""}
    if len(folders) != 1:
        raise ValueError(f"it has {len(folders)} checkpoints")
    (folder,) = folders
    missing = {"config.toml", *(f"{folder}/{name}" for name in OF_CHECKPOINT)} - names
    if missing:
        raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    if others := [name for name in names if "/" in name and not name.startswith(f"{folder}/")]:
        raise ValueError(f"{min(others)!r} does not belong in it")


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


def _write(files: Sequence[Path], folder: Path, output: Path) -> None:
    parameters = zstandard().CompressionParameter
    options = {parameters.compression_level: LEVEL, parameters.checksum_flag: True}
    with (
        zstandard().open(output, "wb", options=options) as file,
        # In this format, files above 8 GB need no second header.
        tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())  # no owner, no time
            entry.size = path.stat().st_size
            with open(path, "rb") as content:
                tar.addfile(entry, content)
