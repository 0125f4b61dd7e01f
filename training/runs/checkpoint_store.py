"""The folder `checkpoint/` of a run: a folder per step, whole or absent, the newest ones kept."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from model.errors import InputError
from model.files.storage import (
    Contents,
    check_format_version,
    flush_folder,
    foreign_files,
    listed,
    read_json,
    remove_folder,
    step_folder,
    step_folders,
    whole_folder,
    write_json,
)
from model.files.weights import GET_AGAIN, check_tensors, load_tensors

log = logging.getLogger(__name__)


class CheckpointStore:
    """Common handling of checkpoints; a subclass defines their content."""

    DESCRIPTION_FILE: ClassVar[str]  # JSON with the format's version and the run's progress
    FORMAT_VERSION: ClassVar[int]  # the newest that is read
    CONTENTS: ClassVar[Contents]  # the files of a checkpoint

    def __init__(self, folder: Path, keep: int):
        self.folder, self.keep = folder, keep

    def complete(self) -> list[Path]:
        """Return the checkpoints, oldest first; a rename made each of them whole."""
        return step_folders(self.folder)

    @contextmanager
    def writing(self, step: int, description: Mapping[str, Any]) -> Iterator[Path]:
        """Yield a folder for the tensors of a step; then remove the outdated checkpoints."""
        with whole_folder(step_folder(self.folder, step), self.CONTENTS) as partial:
            yield partial
            write_json(partial / self.DESCRIPTION_FILE, description)
            flush_folder(partial)
        flush_folder(self.folder)  # before an older checkpoint is removed
        for outdated in self.complete()[: -self.keep]:
            if outdated.is_symlink():
                continue
            if found := foreign_files(outdated, self.CONTENTS):
                log.warning("%s: holds %s, not ours; kept", outdated, listed(found))
            else:
                remove_folder(outdated)

    def describe(self, checkpoint: Path) -> tuple[dict[str, Any], Path]:
        """Return the description of a checkpoint, and the file that holds it.

        Raises InputError if it is damaged or of a newer version.
        """
        path = checkpoint / self.DESCRIPTION_FILE
        content = read_json(path)
        check_format_version(content, self.FORMAT_VERSION, path)
        return content, path


@contextmanager
def advice_if_damaged(checkpoint: Path, if_alone: str | None = None) -> Iterator[None]:
    """Add to an InputError how to go on: the checkpoint before may be intact.

    if_alone: what to do if there is none before.
    """
    try:
        yield
    except InputError as error:
        own = step_folders(checkpoint.parent)
        if checkpoint not in own:
            advice = "continue from another checkpoint, without this --from"
        elif checkpoint != own[0]:
            advice = f"remove {checkpoint} to continue from the one before"
        else:
            run = checkpoint.parent.parent
            begin = f"a new run with --train.start_from {run} begins with its model"
            advice = if_alone or f"no earlier checkpoint is left; {begin}"
        raise InputError(f"{str(error).removesuffix(GET_AGAIN)}; {advice}") from error


def restore_weights(module: nn.Module, path: Path, authority: str) -> None:
    """Load a module's tensors; InputError as for `check_tensors` if they do not fit."""
    expected = module.state_dict()
    tensors = load_tensors(path, like=expected)
    check_tensors(path, tensors, expected, authority)
    module.load_state_dict(tensors)
