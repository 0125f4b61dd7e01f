"""Which regularisers help a model that reads the same text many times.

python -m experiments.recipe.rereading --corpus CORPUS --runs base weight_decay_0.1 --seeds 0 1 2
"""

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from configs import command
from data_utils.corpus import Corpus, open_corpus
from data_utils.lanes import DataConfig, lanes_of, settle_shuffle, taken
from data_utils.provenance import describe_origin
from model.bounds import PositiveInt
from model.files.storage import write_json
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel, Weights, build_model
from model.layers.layer import PerGateParameters
from model.layers.mlstm import MlstmLayer
from model.state import IGNORED, State
from training.evaluation import evaluate_split
from training.objective import Objective
from training.optimizers.optim import OptimConfig
from training.parallel.batch import as_batch
from training.parallel.distributed import World
from training.trainer import TrainConfig, Trainer

HERE = Path(__file__).resolve().parent
RUNS = tomllib.loads(HERE.joinpath("rereading.toml").read_text(encoding="utf-8"))
ALONE = World(0, 1, torch.device("cpu"))
RATE: dict[str, Any] = {"name": "muon", "lr": 1e-2, "warmup": 0.02, "hold": 0.6, "clip_norm": 1.0}
LANES = 64


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train small models on a little text, many passes, each with one change of the recipe."""

    corpus: Path
    """A corpus of bytes made by scripts/prepare_corpus.py."""
    runs: tuple[str, ...] = tuple(RUNS)
    """Names of the runs in rereading.toml; those that have a result are skipped."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of each run."""
    hidden_size: PositiveInt = 128
    """Units; the embedding has a quarter as many."""
    characters: PositiveInt = 1_500_000
    """About how many different characters the base reads."""
    results: Path = HERE / "results" / "rereading"
    """The folder of the results."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a run changes of the base."""

    texts: int = 1  # how often the base's amount of different text
    passes: int = 12
    weight_decay: float = 0.0
    decayed: tuple[str, ...] = ("",)  # parts of the names of the parameters that shrink
    drop_connect: float = 0.0  # fraction of the entries of W_h and W_mh, one mask a window
    embedding_dropout: float = 0.0  # fraction of the vocabulary, drawn for each window
    dropout: float = 0.0  # at the decoder
    label_smoothing: float = 0.0


class MaskedLayer(MlstmLayer):
    """An mLSTM whose recurrent matrices lose some entries while it is trained."""

    masks: dict[str, Tensor] = {}  # noqa: RUF012 - replaced in every window, never changed

    def _normed(self, name: str) -> Tensor:
        w = super()._normed(name)
        return w * self.masks[name] if self.training and name in self.masks else w


class MaskedModel(LanguageModel):
    """A language model that sees nothing of some tokens while it is trained."""

    token_mask: Tensor | None = None  # [V, 1]

    def prepare_weights(self, leaves: PerGateParameters | None = None) -> Weights:
        """Mask the rows of the table: a row is zero where the token's embedding is."""
        weights = super().prepare_weights(leaves)
        if self.token_mask is None or not self.training:
            return weights
        return weights._replace(table=weights.table * self.token_mask.to(weights.table.dtype))


class SmoothedObjective(Objective):
    """A loss that spreads a part of every target over the vocabulary; it reports the plain one."""

    smoothing = 0.0

    def forward(self, tokens: Tensor, targets: Tensor, state: State, *_: Any, **kwargs: Any) -> Any:
        """Return the nats, with the gradient of the smoothed loss, and the state after."""
        weights = self.model.prepare_weights()
        h, state = self.model.hidden(tokens, state, weights)
        args = self.model.decode(h, weights).flatten(0, 1), targets.t().flatten()
        plain, loss = (
            F.cross_entropy(*args, reduction="sum", ignore_index=IGNORED, label_smoothing=smoothing)
            for smoothing in (0.0, self.smoothing)
        )
        loss = loss * kwargs["gradient_scale"]
        return loss + (plain - loss).detach(), state


def main() -> None:
    options = command.parse(Options, __doc__)
    corpus = open_corpus(options.corpus)
    for seed in options.seeds:
        for name in options.runs:
            path = options.results / f"{name}_units_{options.hidden_size}_seed_{seed}.json"
            if not path.is_file():
                command.prepare_output(path)
                result = train(corpus, Change(**RUNS[name]), options, seed)
                write_json(path, {"run": name, **result, "origin": describe_origin()})
                print(f"{path.stem}: {result['rows'][-1]}", flush=True)


def train(corpus: Corpus, change: Change, options: Options, seed: int) -> dict[str, Any]:
    """Train a model; return its bits after each pass, and those of the last pass's mean weights."""
    whole = corpus.splits["train"]
    reviews = int(np.searchsorted(whole.offsets, options.characters * change.texts))
    text = taken(whole, np.arange(reviews))
    data = settle_shuffle(DataConfig(lanes=LANES), text)
    lanes = lanes_of(text, data, LANES, seed, slice(None))
    steps = round(lanes.windows_per_epoch * change.passes)
    trainer = make_trainer(corpus, change, options.hidden_size, steps, seed)
    model = trainer.model
    ends = [round(steps * (done + 1) / change.passes) for done in range(change.passes)]
    averaged, rows, used = AveragedModel(model), [], process_time()
    for step in range(steps):
        draw_masks(model, change, np.random.default_rng([seed, step, 1]))
        trainer.train(as_batch(lanes[step], ALONE.device))
        if step >= steps - steps // change.passes:
            averaged.update_parameters(model)
        if step + 1 in ends:
            rows.append({**trainer.close_row(), "valid_bits_per_character": score(model, corpus)})
    return {
        "change": asdict(change),
        "seed": seed,
        "recipe": {**RATE, "lanes": LANES, "window": data.window, "precision": "bf16"},
        "corpus": corpus.fingerprint,
        "characters": len(text.tokens),
        "hidden_size": options.hidden_size,
        "parameters": sum(p.numel() for p in model.parameters()),
        "rows": rows,
        "mean_of_last_pass": score(averaged.module, corpus),
        "processor_seconds": process_time() - used,
    }


def make_trainer(corpus: Corpus, change: Change, units: int, steps: int, seed: int) -> Trainer:
    """Return a trainer of a model whose weights can be masked, with the change's loss and decay."""
    config = ModelConfig(hidden_size=units, embedding_size=units // 4, forget_gate_bias=1.0)
    vocabulary = corpus.tokenizer.vocabulary_size
    model: Any = build_model(config.for_vocabulary(vocabulary), seed, torch.bfloat16)
    model.__class__, model.layers[0].__class__ = MaskedModel, MaskedLayer
    optim = OptimConfig(**RATE, weight_decay=change.weight_decay)
    train = TrainConfig(steps=steps, precision="bf16", dropout=change.dropout)
    trainer = Trainer(
        model, optim=optim, train=train, world=ALONE, lanes=LANES, steps=steps, seed=seed
    )
    if change.label_smoothing:
        trainer.objective = SmoothedObjective(model)
        trainer.objective.smoothing = change.label_smoothing
    decayed = {id(p) for n, p in model.named_parameters() if any(d in n for d in change.decayed)}
    for optimizer in trainer.optimizers:
        groups = [{**g, "params": [p]} for g in optimizer.param_groups for p in g["params"]]
        spared = [group for group in groups if id(group["params"][0]) not in decayed]
        for group in spared:
            group["weight_decay"] = 0.0
        optimizer.param_groups[:] = groups if spared else optimizer.param_groups
    return trainer


def draw_masks(model: Any, change: Change, random: np.random.Generator) -> None:
    """Draw the masks of the next window."""

    def mask(shape: tuple[int, ...], fraction: float) -> Tensor:
        left = random.random(shape, dtype=np.float32) >= fraction
        return torch.from_numpy(left / np.float32(1 - fraction))

    layer = model.layers[0]
    if fraction := change.drop_connect:
        layer.masks = {n: mask(getattr(layer, f"w_{n}").shape, fraction) for n in ("mh", "h")}
    if fraction := change.embedding_dropout:
        model.token_mask = mask((len(model.embedding.weight), 1), fraction)


def score(model: Any, corpus: Corpus) -> float:
    """Return the bits per character on the valid split."""
    model.eval()
    bits, _ = evaluate_split(model, corpus.splits["valid"], lanes=LANES, world=ALONE)
    model.train()
    return bits


if __name__ == "__main__":
    command.run(main)
