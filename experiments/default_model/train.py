"""Fine-tune a language model and a head of five classes on texts with stars.

python -m experiments.default_model.train --model runs/amazon_1024 --texts data/default \\
    --output runs/default
"""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.examples import Example, read_examples
from experiments.default_model.methods import accuracy_by_source, sided, sides_of
from model.classifiers.classifier import CONFIG_FILE, FOLDER, WEIGHTS_FILE
from model.classifiers.heads import Heads, HeadsConfig, build_heads
from model.classifiers.stars import FEATURES as KIND
from model.classifiers.stars import KIND as STARS_KIND
from model.classifiers.stars import POSITIVE_WEIGHTS, STARS
from model.errors import InputError
from model.features import features_in_order
from model.files.storage import (
    read_json,
    step_folder,
    step_folders,
    step_of,
    whole_folder,
    write_json,
)
from model.files.weights import LoadedModel, load_model, load_tensors, save_model, save_tensors
from model.language_model import LanguageModel
from model.text.tokenizer import BYTES, Tokenizer
from training.objective import IGNORED, linear_cross_entropy
from training.optimizers.schedule import Schedule, set_learning_rate
from training.optimizers.state import flatten_optimizers, load_optimizers
from training.runs.signals import StopRequest
from transfer.finetuning.batches import epoch_batches

ADMITTED = {  # the numbers of stars that agree with a label
    "negative": (1, 2),
    "neutral": (3,),
    "positive": (4, 5),
    **{str(stars): (stars,) for stars in range(1, STARS + 1)},
}
BATCH_SIZE = 64  # texts per step
LM_WEIGHT = 0.2  # of the language model's loss (nats per byte) beside the head's
DROPOUT = 0.1  # of the features before the head
WARMUP = 0.05  # part of the steps in which the rates rise
CLIP_NORM = 1.0  # of the gradient, at most
SAVE_MINUTES = 8.0  # between checkpoints
TRAIN_FILE = "train.jsonl"
HEADS_FILE, OPTIMIZER_FILE = "heads.safetensors", "optimizer.safetensors"
PROGRESS_FILE = "step.json"
MAY_CHANGE = ("output", "resume")  # when a training is resumed


@dataclass(frozen=True)
class Options:
    """Fine-tune, evaluate on val several times, and keep the last step."""

    model: str
    """A model directory, a run directory, the name of a shipped model, or the folder of a step of
    an earlier training. A head between stars in it learns on."""
    texts: Path
    """The folder that experiments.default_model.texts wrote."""
    output: Path
    """The folder to write: step-N/ and metrics.jsonl."""
    resume: bool = False
    """Continue where the same command was stopped."""
    head_lr: float = 1e-3
    """Peak rate of the head under AdamW; it then falls linearly to zero."""
    encoder_factor: float = 0.5
    """The model's rate as a multiple of the head's."""
    evaluations: int = 4
    """Number of evaluations on val, at equal distances."""
    seed: int = 0
    """Seeds the head, the order of the texts and dropout."""


class Batch(NamedTuple):
    """Texts of a batch, padded to the longest."""

    tokens: Tensor  # int64 [B, T]
    sizes: Tensor  # int64 [B, T], how many bytes each token stands for; zero past a text's end
    lengths: Tensor  # int64 [B], in tokens
    admitted: Tensor  # bool [B, 5]


def main() -> None:
    options = command.parse(Options, __doc__)
    torch.manual_seed(options.seed)
    options.output.mkdir(parents=True, exist_ok=True)
    loaded = load_model(options.model, compute_dtype=torch.bfloat16)
    examples = read_examples(options.texts / TRAIN_FILE)
    held = read_examples(options.texts / "val.jsonl")
    learner = Learner(loaded, examples, options)
    if options.resume:
        learner.restore()
    elif head := head_of(loaded.folder):
        learner.heads.load_state_dict(load_tensors(head))
    else:
        learner.standardize()
    with StopRequest() as stop:
        learn(learner, held, stop)
    learner.save()


def head_of(folder: Path) -> Path | None:
    """Return the weights of the head between stars in a model's folder, None if it has none."""
    if (folder / HEADS_FILE).is_file():
        return folder / HEADS_FILE
    description = folder / FOLDER / CONFIG_FILE
    is_shipped = description.is_file() and read_json(description).get("kind") == STARS_KIND
    return folder / FOLDER / WEIGHTS_FILE if is_shipped else None


def learn(learner: "Learner", held: Sequence[Example], stop: StopRequest) -> None:
    """Take the remaining steps; evaluate and save at intervals."""
    options = learner.options
    every = -(-learner.steps // options.evaluations)
    saved_at = begun_at = time.monotonic()
    characters = 0
    while learner.step < learner.steps and not stop.requested:
        row = learner.take_step()
        characters += row["characters"]
        now = time.monotonic()
        if learner.step % 20 == 0 or learner.step == learner.steps:
            learner.note({**row, "characters_per_second": characters / (now - begun_at)})
        if learner.step % every == 0 or learner.step == learner.steps:
            learner.note({"step": learner.step, **evaluate(learner, held)})
        if now - saved_at > 60 * SAVE_MINUTES:
            learner.save()
            saved_at = now


class Learner:
    """A model and its head, which learn together."""

    def __init__(self, loaded: LoadedModel, examples: Sequence[Example], options: Options):
        self.loaded, self.options, self.step = loaded, options, 0
        self.model: LanguageModel = loaded.model.train()
        self.sequences = [loaded.tokens(example.text) for example in examples]
        self.admitted = torch.stack([admitted_of(example.label) for example in examples])
        lengths = list(map(len, self.sequences))
        self.batches = list(epoch_batches(lengths, BATCH_SIZE, seed=options.seed, epoch=0))
        self.steps = len(self.batches)
        config = HeadsConfig(dropout=DROPOUT)
        self.heads: Heads = build_heads(config, KIND.size(self.model.config), STARS, options.seed)
        self.model.requires_grad_(True)
        groups = [
            {"params": list(self.heads.parameters()), "factor": 1.0},
            {"params": list(self.model.parameters()), "factor": options.encoder_factor},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, weight_decay=0.0, fused=True)
        self.schedule = Schedule(peak=options.head_lr, steps=self.steps, warmup=WARMUP)
        self.origin = describe_origin()
        self.begun_with = begun_with(options)

    def standardize(self, texts: int = 1024) -> None:
        """Set the statistics of the features from training texts, before the first step."""
        rows = np.random.default_rng(self.options.seed).permutation(len(self.sequences))[:texts]
        features = self.features([self.sequences[row] for row in rows])
        self.heads.standardize_by(features)

    def features(self, sequences: Sequence[np.ndarray]) -> Tensor:
        """Return features [N, 2H] without a gradient."""
        found = features_in_order(self.model, sequences, kind=KIND, batch_size=BATCH_SIZE)
        return torch.from_numpy(found)

    def take_step(self) -> dict[str, Any]:
        """Learn from the next batch; return its row of metrics."""
        rows = self.batches[self.step]
        sequences = [self.sequences[row] for row in rows]
        batch = side_by_side(sequences, self.admitted[rows], self.loaded.tokenizer)
        rate = self.schedule.rate(self.step)
        set_learning_rate([self.optimizer], rate)
        self.optimizer.zero_grad(set_to_none=True)
        features, nats = read(self.model, batch)
        loss = stars_loss(self.heads.train()(features), batch.admitted)
        (loss + LM_WEIGHT * nats).backward()
        learning = [*self.heads.parameters(), *self.model.parameters()]
        norm = torch.nn.utils.clip_grad_norm_(learning, CLIP_NORM)
        assert torch.isfinite(norm), f"step {self.step}: the gradient is not finite"
        self.optimizer.step()
        self.step += 1
        return {
            "step": self.step,
            "steps": self.steps,
            "characters": int(batch.sizes.sum()),
            "loss": loss.item(),
            "bits_per_character": nats.item() / float(np.log(2)),
            "learning_rate": rate,
            "gradient_norm": norm.item(),
        }

    def note(self, row: dict[str, Any]) -> None:
        """Append a row to metrics.jsonl and print it."""
        line = json.dumps(row)
        print(line, flush=True)
        with (self.options.output / "metrics.jsonl").open("a") as file:
            file.write(line + "\n")

    def save(self) -> None:
        """Write step-N/: a model directory with the head and the state of training."""
        folder = step_folder(self.options.output, self.step)
        provenance = {"finetuned_from": dict(self.loaded.provenance), **self.origin}
        with whole_folder(folder) as partial:
            tokenizer = self.loaded.tokenizer
            save_model(partial, self.model, self.loaded.profile, provenance, tokenizer=tokenizer)
            save_tensors(partial / HEADS_FILE, self.heads.state_dict())
            save_tensors(partial / OPTIMIZER_FILE, flatten_optimizers([self.optimizer]))
            write_json(partial / PROGRESS_FILE, {"step": self.step, **self.begun_with})

    def restore(self) -> None:
        """Continue from the newest step-N/, which the same options and texts must have begun."""
        folders = step_folders(self.options.output)
        if not folders:
            raise InputError(f"{self.options.output}: has no step to resume from")
        folder = folders[-1]
        before = read_json(folder / PROGRESS_FILE)
        assert before["step"] == step_of(folder)
        check_same(folder / PROGRESS_FILE, before, self.begun_with)
        self.step = before["step"]
        self.model.load_state_dict(load_model(folder).model.state_dict())
        self.heads.load_state_dict(load_tensors(folder / HEADS_FILE))
        moments = folder / OPTIMIZER_FILE
        load_optimizers([self.optimizer], load_tensors(moments), moments)


def begun_with(options: Options) -> dict[str, Any]:
    """Return the options and the digest of the training texts."""
    with (options.texts / TRAIN_FILE).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "options": {name: str(value) for name, value in asdict(options).items()},
        "texts_sha256": digest,
    }


def check_same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise InputError if a training began with other options or texts than those of now."""
    other = [
        f"{name} {before['options'].get(name)} (now {value})"
        for name, value in now["options"].items()
        if name not in MAY_CHANGE and before["options"].get(name) != value
    ]
    if before.get("texts_sha256") != now["texts_sha256"]:
        other.append("other training texts")
    if other:
        raise InputError(f"{path}: began with {'; '.join(other)}; resume with the same ones")


def side_by_side(
    sequences: Sequence[np.ndarray], admitted: Tensor, tokenizer: Tokenizer = BYTES
) -> Batch:
    """Return texts of tokens, [n] each, as one batch."""
    lengths = torch.tensor(list(map(len, sequences)))
    sizes = padded([tokenizer.byte_lengths(sequence) for sequence in sequences])
    return Batch(padded(sequences), sizes, lengths, admitted)


def padded(sequences: Sequence[np.ndarray]) -> Tensor:
    """Return sequences of whole numbers, [n] each, with zeros after the shorter, int64 [B, T]."""
    rows = [torch.from_numpy(sequence.astype(np.int64)) for sequence in sequences]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def read(model: LanguageModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return features [B, 2H] of KIND with a gradient, and nats per predicted byte."""
    weights = model.fold()
    B, T = batch.tokens.shape
    h, _ = model.hidden(batch.tokens, model.initial_state(B), weights)  # [T, B, H]
    is_read = torch.arange(T).unsqueeze(1) < batch.lengths  # [T, B]
    last = h[batch.lengths - 1, torch.arange(B)].float()  # [B, H]
    mean = (h.float() * is_read.unsqueeze(2)).sum(0) / batch.lengths.unsqueeze(1)  # [B, H]
    features = torch.cat([last, mean], dim=1)
    targets = batch.tokens.t()[1:].where(is_read[1:], IGNORED)  # [T - 1, B]
    nats = linear_cross_entropy(
        h[:-1].flatten(0, 1), weights.w_out, weights.b_out, targets.flatten()
    )
    return features, nats / batch.sizes[:, 1:].sum()


def admitted_of(label: str) -> Tensor:
    """Return the numbers of stars that agree with a label, bool [5]."""
    return torch.tensor([stars in ADMITTED[label] for stars in range(1, STARS + 1)])


def stars_loss(logits: Tensor, admitted: Tensor) -> Tensor:
    """Return -log of the probability of the admitted numbers of stars, the mean over heads.

    logits: [B, K, 5]. admitted: bool [B, 5].
    """
    logs = logits.log_softmax(-1)  # [B, K, 5]
    return -logs.masked_fill(~admitted.unsqueeze(1), -torch.inf).logsumexp(-1).mean()


def evaluate(learner: Learner, held: Sequence[Example]) -> dict[str, Any]:
    """Return the accuracy on val by source, without the neutral texts."""
    features = learner.features([learner.loaded.tokens(example.text) for example in held])
    with torch.inference_mode():
        logits = learner.heads.eval()(features)  # [N, 1, 5]
    positive = logits.softmax(-1)[:, 0].numpy() @ POSITIVE_WEIGHTS  # [N]
    labels = sides_of(held)
    right = (positive > 0.5) == (labels == 1)
    accuracies = accuracy_by_source(right[labels >= 0], sided(held))
    return {source: {"accuracy": accuracy} for source, accuracy in accuracies.items()}


if __name__ == "__main__":
    command.run(main)
