"""The checkpoints of fine-tuning, from which it continues exactly.

`step-N/` holds `weights.safetensors` (the heads, and the model unless it is frozen),
`optimizer.safetensors` and `progress.json`. Batches and dropout need not be saved: they are drawn
from the seed and the step.
"""

from pathlib import Path

from torch import nn

from model.files.storage import step_folder, step_of
from model.files.weights import save_tensors
from training.optimizers.state import flatten_optimizers, restore_optimizers
from training.runs.checkpoint_store import CheckpointStore, advice_if_damaged, restore_weights

from .directory import FinetuningDirectory
from .parameter_groups import let_learn
from .trainer import Finetuner, FinetuningProgress

WEIGHTS_FILE = "weights.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"


class FinetuningCheckpoints(CheckpointStore):
    """The checkpoints of a fine-tuning: only the newest one is kept."""

    DESCRIPTION_FILE = "progress.json"
    FORMAT_VERSION = 1
    CONTENTS = FinetuningDirectory.CHECKPOINT_FILES

    def __init__(self, folder: Path):
        super().__init__(folder, keep=1)

    def save(self, tuner: Finetuner) -> None:
        """Write a checkpoint unless this step has one."""
        step = tuner.progress.step
        if step_folder(self.folder, step).exists():
            return
        description = {
            "format_version": self.FORMAT_VERSION,
            "progress": tuner.progress.as_json(),
        }
        with self.writing(step, description) as partial:
            save_tensors(partial / WEIGHTS_FILE, learning_modules(tuner).state_dict())
            save_tensors(partial / OPTIMIZER_FILE, flatten_optimizers([tuner.optimizer]))

    def restore(self, tuner: Finetuner) -> None:
        """Load the newest checkpoint; InputError if a part of it does not fit."""
        folder = self.complete()[-1]
        with advice_if_damaged(folder, f"remove {folder} to begin again"):
            self._restore(tuner, folder)

    def _restore(self, tuner: Finetuner, folder: Path) -> None:
        content, path = self.describe(folder)
        step = step_of(folder)
        tuner.progress = FinetuningProgress.from_json(content.get("progress"), step, path)
        restore_weights(learning_modules(tuner), folder / WEIGHTS_FILE, "the request asks for")
        # The optimiser has no state for a parameter that had not begun to learn.
        let_learn(tuner.model, tuner.groups, tuner.config, (step - 1) // tuner.epoch_steps)
        restore_optimizers([tuner.optimizer], folder / OPTIMIZER_FILE)


def learning_modules(tuner: Finetuner) -> nn.ModuleDict:
    """Return the modules that learn, by the prefix of their tensors in a checkpoint."""
    modules: dict[str, nn.Module] = {"heads": tuner.heads}
    return nn.ModuleDict(modules if tuner.config.freeze else {**modules, "model": tuner.model})
