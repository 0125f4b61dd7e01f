"""The loop of fine-tuning: steps over batches of texts, an evaluation after every epoch.

Batches: a batch is read without padding, and a text leaves it at its end, so every distinct length
costs a call of the recurrence. Texts are therefore sorted by length within random pools of many
batches, which differ from epoch to epoch. A set of at most POOL batches is a single pool: each
epoch has nearly the same batches, in a new order.

Losses: classes that exclude each other have a common softmax and its cross-entropy, so that their
probabilities sum to one; with a sigmoid each (the default of Kant et al. 2018) all or none could be
likely. Other classes each have a sigmoid and a binary cross-entropy.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mlstm_sentiment.bounds import NonNegativeInt
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head import Head
from model.layers.language_model import LanguageModel
from training.optimizers.optim import Schedule, set_learning_rate
from training.runs.checkpoint_store import Progress

from ..metrics import choose_threshold, metrics_of
from .config import FinetuningConfig
from .encoder import encode, features_of
from .heads import Heads
from .task import Task

POOL = 100  # batches that are sorted together, at most
_STATISTICS_TEXTS = 2048  # of the training set, to standardise features


@dataclass
class FinetuningProgress(Progress):
    """The progress of a fine-tuning."""

    best_epoch: NonNegativeInt = 0  # counted from 1; 0: none yet
    best_value: float = 0.0  # of the metric that decides
    head_loss: float = 0.0  # over the epoch's steps so far, summed
    seconds: float = 0.0  # of steps and evaluations, over all processes of the run
    lacks_evaluation: bool = False  # the epoch that ended with this step


class Finetuner:
    """A model and heads that learn a task together."""

    def __init__(
        self,
        model: LanguageModel,
        heads: Heads,
        task: Task,
        config: FinetuningConfig,
        frozen: Mapping[str, np.ndarray],
    ):
        """frozen: the features of train and val, by name, if config.freeze; else nothing."""
        self.model, self.heads, self.frozen = model.eval(), heads, frozen
        self.task, self.config = task, config
        self.device = model.embedding.weight.device
        learning: list[nn.Parameter] = []
        if not config.freeze:  # from the top down
            modules = [*reversed(model.layers), model.embedding]
            learning = [parameter for module in modules for parameter in module.parameters()]
        model.requires_grad_(False)
        for parameter in learning:
            parameter.requires_grad_(True)
        self.optimizer = torch.optim.AdamW(
            [
                {"params": list(heads.parameters()), "factor": 1.0},
                *([{"params": learning, "factor": config.encoder_factor}] if learning else []),
            ],
            lr=0.0,  # set before every step
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.parameters = [*heads.parameters(), *learning]
        self.labels = torch.from_numpy(task.train_labels).to(self.device)
        self.lengths = [len(sequence) for sequence in task.train]
        self.epoch_steps = batches_per_epoch(len(self.lengths), config.batch_size)
        self.steps = config.epochs * self.epoch_steps
        self.schedule = Schedule(peak=config.head_lr, steps=self.steps, warmup=config.warmup)
        self.progress = FinetuningProgress()
        self.history: list[dict[str, Any]] = []  # a row per epoch
        self.is_time_up: Callable[[], bool] = lambda: False  # asked in an evaluation

    @property
    def epoch(self) -> int:
        """The epoch of the next step or evaluation, counted from 0."""
        return (self.progress.step - self.progress.lacks_evaluation) // self.epoch_steps

    @property
    def is_done(self) -> bool:
        return self.epoch >= self.config.epochs

    def standardize(self) -> None:
        """Take the features' statistics from training texts, before the first step."""
        self.heads.standardize_by(self._features_of_train())

    def _features_of_train(self) -> Tensor:
        """Return the features that some training texts have now, [N, F]."""
        order = np.random.default_rng(self.config.seed).permutation(len(self.task.train))
        rows = order[:_STATISTICS_TEXTS]
        if self.config.freeze:
            return self._encoded(rows)
        texts = [self.task.train[row] for row in rows]
        features = features_of(self.model, "train", texts, self.is_time_up)
        return torch.from_numpy(features).to(self.device)

    def _encoded(self, rows: np.ndarray) -> Tensor:
        """Return the features [B, F] of training texts, with a gradient unless frozen."""
        if self.config.freeze:
            return torch.from_numpy(self.frozen["train"][rows]).to(self.device)
        return encode([self.task.train[row] for row in rows], self.model, self.config.window)

    def run_epoch(self, after_step: Callable[[], bool]) -> Head | None:
        """Take the rest of the epoch's steps and evaluate; return the heads if it was the best.

        after_step, called between steps, returns whether to continue; an epoch that it ends early
        is not evaluated. If the evaluation raises TimeIsUp, the next call begins with it.
        """
        epoch = self.epoch
        done = self.progress.step - epoch * self.epoch_steps
        batches = epoch_batches(
            self.lengths, self.config.batch_size, seed=self.config.seed, epoch=epoch
        )
        for rows in batches[done:]:
            with self._timed():
                self.step(rows)
            if self.progress.step % self.epoch_steps and not after_step():
                return None
        self.progress.lacks_evaluation = True
        with self._timed():
            return self.conclude_epoch()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.progress.seconds += time.perf_counter() - begin

    def step(self, rows: np.ndarray) -> None:
        """Learn from the training texts of these indices.

        An epoch's last texts may be few and, since texts are sorted by length, the same each time.
        Rate and gradient are scaled by the fraction of a full batch, so they do not count more.
        """
        fraction = len(rows) / min(self.config.batch_size, len(self.lengths))
        rate = self.schedule.rate(self.progress.step)
        set_learning_rate([self.optimizer], rate * fraction)
        self.optimizer.zero_grad(set_to_none=True)
        features = self._encoded(rows)
        with _dropout_of(self.config.seed, self.progress.step):
            logits = self.heads.train()(features)  # [B, K, C]
        loss = head_loss(logits, self.labels[torch.from_numpy(rows)])
        (loss * fraction).backward()
        self._update()
        self.progress.head_loss += loss.item()
        self.progress.step += 1

    def _update(self) -> None:
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        if not torch.isfinite(norm):
            raise InputError(
                f"step {self.progress.step + 1}: the loss or its gradient is not finite; try a "
                f"lower --head-lr than {self.config.head_lr:g}"
            )
        self.optimizer.step()

    def conclude_epoch(self) -> Head | None:
        """Evaluate, add a row to the history; return the heads if no earlier epoch was as good."""
        tuned, metrics = self.evaluate()
        progress = self.progress
        value = metrics[self.metric]
        is_best = not progress.best_epoch or value > progress.best_value
        if is_best and not self.config.freeze:
            # The units' spread has changed; it decides which unit influences the heads most.
            tuned = self.tuned(tuned.thresholds, self._features_of_train().cpu())
        row: dict[str, Any] = {"epoch": len(self.history) + 1, "step": progress.step}
        row["train_loss"] = progress.head_loss / self.epoch_steps
        row |= {f"val_{name}": metrics[name] for name in metrics}
        row["thresholds"] = list(tuned.thresholds)
        self.history.append(row)
        progress.head_loss, progress.lacks_evaluation = 0.0, False
        if is_best:
            progress.best_epoch, progress.best_value = row["epoch"], value
        return tuned if is_best else None

    @property
    def metric(self) -> str:
        """The metric that chooses the best epoch."""
        return "f1_macro" if self.task.is_multilabel else "accuracy"

    def evaluate(self) -> tuple[Head, dict[str, float]]:
        """Choose thresholds on the validation set; return the heads with them, and metrics."""
        if self.config.freeze:
            features = self.frozen["val"]
        else:
            features = features_of(self.model, "val", self.task.val, self.is_time_up)
        tuned, labels = self.tuned(), self.task.val_labels
        probabilities = tuned.probabilities(features)
        if tuned.several_labels:
            columns = zip(probabilities.T, labels.T, strict=True)
            tuned = self.tuned(tuple(choose_threshold(*column, "f1") for column in columns))
        elif tuned.is_binary:
            tuned = self.tuned((choose_threshold(probabilities, labels),))
        choices = tuned.choose(probabilities)
        return tuned, metrics_of(labels, choices, len(self.task.classes))

    def tuned(self, thresholds: tuple[float, ...] = (), features: Tensor | None = None) -> Head:
        """Return the heads as they are now; not yet of a model on the disk.

        features: [N, F], by which they are standardized anew; their answers stay.
        """
        heads = Heads(self.heads.config, len(self.heads.center), self.heads.classes)
        heads.load_state_dict(self.heads.state_dict())
        if features is not None:
            heads.restandardize_by(features)
        exclusive = not self.task.is_multilabel
        return heads.as_head(self.task.classes, exclusive=exclusive, thresholds=thresholds)


@contextmanager
def _dropout_of(seed: int, step: int) -> Iterator[None]:
    """Draw random numbers from this step's own generator, so that none needs to be saved."""
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(np.random.SeedSequence((seed, step)).generate_state(1)[0]))
        yield


def epoch_batches(
    lengths: Sequence[int], batch_size: int, *, seed: int, epoch: int
) -> list[np.ndarray]:
    """Return the batches of an epoch, indices [B] each; every text is in one of them.

    They depend on the seed and the epoch alone, so a resumed run need not have saved them.
    """
    generator = np.random.default_rng((seed, epoch))
    sizes = np.asarray(lengths)
    order = generator.permutation(len(sizes))
    total = batches_per_epoch(len(sizes), batch_size)
    size = -(-total // -(-total // POOL)) * batch_size  # pools of equal size, as few as may be
    batches = []
    for first in range(0, len(order), size):
        pool = order[first : first + size]
        pool = pool[np.argsort(-sizes[pool], kind="stable")]
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    return [batches[place] for place in generator.permutation(len(batches))]


def batches_per_epoch(texts: int, batch_size: int) -> int:
    return -(-texts // batch_size)


def head_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of the heads' separate losses, for logits [B, K, C].

    labels: int64 [B], or [B, C] of 0 and 1. Each head learns alone; only their probabilities are
    averaged.
    """
    B, K, C = logits.shape
    if labels.ndim == 1:
        return F.cross_entropy(logits.reshape(B * K, C), labels.repeat_interleave(K))
    truth = labels.to(logits.dtype).unsqueeze(1).expand(-1, K, -1)
    return F.binary_cross_entropy_with_logits(logits, truth)
