"""Fine-tune a language model and a head of five classes on texts with stars.

python -m experiments.default_model.train --model runs/amazon_1024 --texts data/default \\
    --output runs/default
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from configs import command
from experiments.default_model.heads import network_arrays
from experiments.default_model.methods import accuracy_by_source, sided, sides_of
from experiments.default_model.sentences.examples import Example, read_examples
from model.bounds import PositiveInt
from model.classifiers.head_files import CONFIG_FILE, FOLDER, load_head
from model.classifiers.kinds import STAR_POOLING, STAR_STATE, STAR_WEIGHTS
from model.engine.kinds import FeatureKind
from model.files.shipped import MODEL_FILES
from model.files.storage import step_folder, whole_folder
from model.inference.tensors import load_tensors, save_tensors
from model.inference.weights import LoadedModel, load_model, save_model
from training.runs.signals import StopRequest
from transfer.finetuning.config import FinetuningConfig
from transfer.finetuning.directory import FinetuningCheckpoints, FinetuningDirectory
from transfer.finetuning.encoder import LearningEncoder
from transfer.finetuning.experiment import learn
from transfer.finetuning.heads import build_heads
from transfer.finetuning.task import Task
from transfer.finetuning.trainer import Finetuner, Step

STARS = len(STAR_WEIGHTS)
KIND = FeatureKind(state=STAR_STATE, pooling=STAR_POOLING)
ADMITTED = {  # the numbers of stars that agree with a label
    "negative": (1, 2),
    "neutral": (3,),
    "positive": (4, 5),
    **{str(stars): (stars,) for stars in range(1, STARS + 1)},
}
SETTINGS = FinetuningConfig(
    epochs=1,
    batch_size=64,
    warmup=0.05,
    lm_weight=0.2,  # nats per byte
    encoder_factor=0.5,
)
SAVE_MINUTES = 8.0  # between checkpoints
ROW_STEPS = 20  # between rows of metrics
HEADS_FILE = "heads.safetensors"


@dataclass(frozen=True)
class Options:
    """Fine-tune, evaluate on val several times, and keep the last step."""

    model: str
    """A model directory, a run directory, the name of a shipped model, or the folder of a step of
    an earlier training. If it has a head that predicts stars, that head is trained further."""
    texts: Path
    """The folder that experiments.default_model.texts wrote."""
    output: Path
    """The folder to write: step-N/, metrics.jsonl, and the checkpoint."""
    resume: bool = False
    """Continue where the same command was stopped."""
    head_lr: float = 1e-3
    """Peak rate of the head under AdamW; it then falls linearly to zero."""
    evaluations: PositiveInt = 4
    """Number of evaluations on val, at equal distances."""
    seed: int = 0
    """Seeds the head, the order of the texts and dropout."""


def main() -> int:
    options = command.parse(Options, __doc__)
    with StopRequest() as stop:
        train(options, stop)
    return stop.exit_code if stop.requested else 0


def train(options: Options, stop: StopRequest) -> None:
    """Take the steps that are left, until asked to stop; write the model as it then is."""
    directory = FinetuningDirectory(options.output)
    with directory.locked(resume=options.resume):
        loaded = load_model(options.model, compute_dtype=torch.bfloat16)
        held = read_examples(options.texts / "val.jsonl")
        task = task_of(loaded, read_examples(options.texts / "train.jsonl"), held)
        config = replace(
            SETTINGS,
            head_lr=options.head_lr,
            seed=options.seed,
            window=max(map(len, task.train)),
        )
        directory.begin(loaded, task, config, resume=options.resume)
        tuner = StarsTuner(loaded, task, config, held, options)
        checkpoints = FinetuningCheckpoints(directory, loaded)
        if not checkpoints.restore(tuner):
            if head := head_of(loaded.folder, loaded.model.config.hidden_size):
                tuner.heads.load_state_dict(head)
            else:
                tuner.standardize()
        learn(tuner, directory, checkpoints, loaded, stop, 60 * SAVE_MINUTES)
        provenance = {"finetuned_from": dict(loaded.provenance), **directory.origin}
        publish(step_folder(options.output, tuner.progress.step), tuner, loaded, provenance)


def publish(folder: Path, tuner: Finetuner, loaded: LoadedModel, origin: dict[str, Any]) -> None:
    """Write a model directory with the head in it."""
    with whole_folder(folder, (*MODEL_FILES, HEADS_FILE)) as partial:
        save_model(partial, tuner.model, loaded.profile, origin, tokenizer=loaded.tokenizer)
        save_tensors(partial / HEADS_FILE, tuner.heads.state_dict())


def head_of(folder: Path, hidden_size: int) -> dict[str, Tensor] | None:
    """Return the head that predicts stars in a model's folder; None if it has none."""
    if (folder / HEADS_FILE).is_file():
        return load_tensors(folder / HEADS_FILE)
    if not (folder / FOLDER / CONFIG_FILE).is_file():
        return None
    head = load_head(folder / FOLDER, hidden_size)
    arrays = network_arrays(head) if head.has_stars else {}
    return {name: torch.from_numpy(array) for name, array in arrays.items()} or None


def task_of(loaded: LoadedModel, *parts: Sequence[Example]) -> Task:
    """Return the texts of train and val as the model reads them, and the stars they leave open."""
    train, val = ([loaded.encode(example.text) for example in part] for part in parts)
    of_train, of_val = (np.stack([target_of(example.label) for example in p]) for p in parts)
    return Task(train, val, of_train, of_val, tuple(map(str, range(1, STARS + 1))))


class StarsTuner(Finetuner):
    """Learns from the stars that labels leave open; writes rows of metrics on its way."""

    def __init__(
        self,
        loaded: LoadedModel,
        task: Task,
        config: FinetuningConfig,
        held: Sequence[Example],
        options: Options,
    ):
        model, self.count = loaded.model, loaded.tokenizer.count_bytes
        heads = build_heads(config.heads(), KIND.size(model.config), STARS, config.seed)
        encoder = LearningEncoder(model, config.window, predicts=True, kind=KIND, count=self.count)
        super().__init__(model, heads, encoder, task, config)
        self.held, self.metrics = held, options.output / "metrics.jsonl"
        self.evaluated_steps = -(-self.steps // options.evaluations)
        self.begun_at, self.characters = time.monotonic(), 0

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return stars_loss(logits, labels)

    def step(self, rows: np.ndarray) -> Step:
        result = super().step(rows)
        step, last = self.progress.step, self.progress.step == self.steps
        characters = sum(self.count(self.task.train[row]) for row in rows)
        self.characters += characters
        if last or step % ROW_STEPS == 0:
            row = {
                "step": step,
                "steps": self.steps,
                "characters": characters,
                "loss": result.loss,
                "bits_per_character": result.nats / result.tokens / math.log(2),
                "learning_rate": self.schedule.rate(step - 1),
                "gradient_norm": result.gradient_norm,
                "characters_per_second": self.characters / (time.monotonic() - self.begun_at),
            }
            self.note(row)
        if last or step % self.evaluated_steps == 0:
            self.note({"step": step, **evaluate(self, self.held)})
        return result

    def conclude_epoch(self) -> None:
        """Choose no epoch: the last step is kept."""

    def note(self, row: dict[str, Any]) -> None:
        """Append a row to metrics.jsonl and print it."""
        line = json.dumps(row)
        print(line, flush=True)
        with self.metrics.open("a") as file:
            file.write(line + "\n")


def target_of(label: str) -> Tensor:
    """Return a label as float [5]: ones for the stars it admits, or a teacher's probabilities."""
    if label in ADMITTED:
        return torch.tensor([float(s in ADMITTED[label]) for s in range(1, STARS + 1)])
    return torch.tensor([float(part) for part in label.split()])


def stars_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -log of the probability of the admitted stars, the mean over heads.

    For a teacher's probabilities it is the cross-entropy.
    logits: [B, K, 5]. targets: float [B, 5], of `target_of`.
    """
    logs = logits.log_softmax(-1)  # [B, K, 5]
    targets = targets.unsqueeze(1)  # [B, 1, 5]
    admitted = -logs.masked_fill(targets == 0, -torch.inf).logsumexp(-1)  # [B, K]
    taught = -(targets * logs).sum(-1)  # [B, K]
    is_set = (targets == targets.round()).all(-1)  # [B, 1]
    return torch.where(is_set, admitted, taught).mean()


def evaluate(tuner: Finetuner, held: Sequence[Example]) -> dict[str, Any]:
    """Return the accuracy on val by source, without the neutral texts."""
    features = torch.from_numpy(tuner.encoder.features("val", tuner.task.val))
    with torch.inference_mode():
        logits = tuner.heads.eval()(features)  # [N, 1, 5]
    positive = logits.softmax(-1)[:, 0].numpy() @ np.array(STAR_WEIGHTS)  # [N]
    labels = sides_of(held)
    right = (positive > 0.5) == (labels == 1)
    accuracies = accuracy_by_source(right[labels >= 0], sided(held))
    return {source: {"accuracy": accuracy} for source, accuracy in accuracies.items()}


if __name__ == "__main__":
    command.run(main)
