"""Checkpoints of fine-tuning: a folder per step, whole or absent; nothing is unpickled.

`step-N/`: `weights.safetensors` (the heads, and the model unless it is frozen),
`optimizer.safetensors`, `progress.json`. It goes on exactly: batches and dropout are drawn anew
from the seed and the step.
"""

import shutil
from dataclasses import asdict
from pathlib import Path

from torch import Tensor, nn

from model.errors import InputError
from model.storage import check_format_version, read_json, whole_folder, write_json
from model.weights import check_shapes, load_tensors, save_tensors
from training.optimizer_state import flatten_optimizers, load_optimizers

from .trainer import Finetuner, Progress

FORMAT_VERSION = 1
WEIGHTS_FILE = "weights.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
PROGRESS_FILE = "progress.json"


class Checkpoints:
    """The folder `checkpoint/` of a fine-tuning."""

    def __init__(self, folder: Path):
        self.folder = folder

    def save(self, tuner: Finetuner) -> None:
        """Write a checkpoint, unless this step has one, then remove the older ones."""
        folder = self.folder / f"step-{tuner.progress.step:08d}"
        if folder.exists():
            return
        progress = {"format_version": FORMAT_VERSION, "progress": asdict(tuner.progress)}
        with whole_folder(folder) as partial:
            save_tensors(partial / WEIGHTS_FILE, learned_tensors(tuner))
            save_tensors(partial / OPTIMIZER_FILE, flatten_optimizers([tuner.optimizer]))
            write_json(partial / PROGRESS_FILE, progress)
        for outdated in self.complete()[:-1]:
            shutil.rmtree(outdated)

    def complete(self) -> list[Path]:
        """Return the checkpoints, oldest first; a rename made each of them whole."""
        return sorted(path for path in self.folder.glob("step-*") if path.is_dir())

    def restore(self, tuner: Finetuner) -> None:
        """Load the newest checkpoint."""
        folder = self.complete()[-1]
        path = folder / PROGRESS_FILE
        content = read_json(path)
        check_format_version(content, FORMAT_VERSION, path)
        try:
            tuner.progress = Progress(**content["progress"])
        except (KeyError, TypeError) as error:
            raise InputError(f"{path}: lacks what a resume needs ({error})") from error
        weights = folder / WEIGHTS_FILE
        expected = learned_tensors(tuner)
        check_shapes(weights, {name: tuple(t.shape) for name, t in expected.items()})
        loaded = load_tensors(weights)
        for prefix, module in modules_of(tuner).items():
            names = [name for name in loaded if name.startswith(prefix)]
            module.load_state_dict({name.removeprefix(prefix): loaded[name] for name in names})
        load_optimizers([tuner.optimizer], load_tensors(folder / OPTIMIZER_FILE))


def modules_of(tuner: Finetuner) -> dict[str, nn.Module]:
    """Return what learns, by the prefix of its tensors."""
    modules: dict[str, nn.Module] = {"heads.": tuner.heads}
    return modules if tuner.config.freeze else {**modules, "model.": tuner.model}


def learned_tensors(tuner: Finetuner) -> dict[str, Tensor]:
    """Return the tensors of everything that learns."""
    return {
        f"{prefix}{name}": tensor
        for prefix, module in modules_of(tuner).items()
        for name, tensor in module.state_dict().items()
    }
