"""Checkpoints of fine-tuning: a folder per step, whole or absent; nothing is unpickled.

`step-N/`: `weights.safetensors` (the heads, and the model unless it is frozen),
`optimizer.safetensors`, `progress.json`. It goes on exactly: batches and dropout are drawn anew
from the seed and the step.
"""

import shutil
from dataclasses import asdict
from pathlib import Path

from torch import Tensor, nn

from model.files.shapes import hold_tensors
from model.files.storage import (
    check_format_version,
    read_json,
    step_folder,
    step_folders,
    step_of,
    whole_folder,
    write_json,
)
from model.files.weights import load_tensors, save_tensors
from training.optimizers.state import flatten_optimizers, load_optimizers
from training.progress import read_counters

from .parameter_groups import let_learn
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
        folder = step_folder(self.folder, tuner.progress.step)
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
        return step_folders(self.folder)

    def restore(self, tuner: Finetuner) -> None:
        """Load the newest checkpoint; InputError where a part of it does not fit."""
        folder = self.complete()[-1]
        path = folder / PROGRESS_FILE
        content = read_json(path)
        check_format_version(content, FORMAT_VERSION, path)
        step = step_of(folder)
        tuner.progress = read_counters(Progress, content.get("progress"), step, path)
        weights = folder / WEIGHTS_FILE
        loaded = load_tensors(weights)
        hold_tensors(weights, loaded, learned_tensors(tuner), "the request asks for")
        for prefix, module in modules_of(tuner).items():
            names = [name for name in loaded if name.startswith(prefix)]
            module.load_state_dict({name.removeprefix(prefix): loaded[name] for name in names})
        # Of what had not begun to learn by the last step, the optimiser knows nothing.
        let_learn(tuner.model, tuner.groups, tuner.config, (step - 1) // tuner.epoch_steps)
        moments = folder / OPTIMIZER_FILE
        load_optimizers([tuner.optimizer], load_tensors(moments), moments)


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
