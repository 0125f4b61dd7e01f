"""Train a shipped network on labelled short texts, together with its head.

python -m experiments.everyday_english.tune --texts data/everyday --fit runs/a1 --output runs/tuned

The network, its affine head and the two bags of n-grams begin as they are after
`experiments.everyday_english.fit`, and learn together. Every third step the network also learns to
predict the texts' next tokens, so that its bits still tell what is unfamiliar.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from configs import command
from data_utils.provenance import describe_origin
from experiments.everyday_english.fit import BUCKETS, SIDES, LabelLoss, Network, falling_rate
from experiments.everyday_english.measure import GROUPS as EVERYDAY_GROUPS
from experiments.everyday_english.texts import Example, read
from mlstm_sentiment.files.writer import make_folder, write_json
from mlstm_sentiment.head.ngrams import buckets_of
from mlstm_sentiment.text.markup import without_tags
from model.inference.weights import LoadedModel, load_model, save_model
from model.layers.cross_entropy import linear_cross_entropy
from model.layers.language_model import LanguageModel
from model.state import IGNORED

POOL = 64  # batches of texts of similar length
PREDICTED = 3  # every so many steps, the next token is predicted, too
REVIEW_GROUPS = {
    "SST": ("sst",),
    "short reviews": ("short product", "short restaurant", "short hotel"),
    "long reviews": ("long product", "long restaurant", "long hotel"),
}
GROUPS = {**EVERYDAY_GROUPS, "own sentences": ("own",), **REVIEW_GROUPS}
CLIP = 1.0  # the largest norm of the gradient


@dataclass(frozen=True)
class Options:
    """Write the network, fit.npz and fit.json."""

    texts: Path
    """The folder of experiments.everyday_english.texts."""
    fit: Path
    """What experiments.everyday_english.fit wrote for the same model: where the head begins."""
    output: Path
    """The folder to write."""
    model: str = "default"
    """A shipped model, or the folder of one."""
    more: Path | None = None
    """More training texts, as JSON lines."""
    longest: int = 256
    """Tokens of a text: its last ones."""
    epochs: int = 2
    batch: int = 128
    lr: float = 3e-4
    """Of the network."""
    head_lr: float = 3e-4
    bag_lr: float = 3e-3
    decay: float = 1e-3
    """Weight decay of the network, towards zero."""
    dropout: float = 0.3
    """Of the states."""
    lm_weight: float = 0.2
    """Of the cost of a token in nats, when it is predicted."""
    reviews: float = 1.5
    """The weight of a review."""
    grammar: float = 1.0
    phrases: float = 0.5
    every: int = 1
    """Learn from every so manyth text: for trials."""
    minutes: float = 0.0
    """Print accuracy on val each time that so many minutes went by; 0: at the end only."""
    seed: int = 0


def main() -> None:
    options = command.parse(Options, __doc__)
    torch.manual_seed(options.seed)
    examples = read(options.texts / "train.jsonl")[:: options.every]
    if options.more is not None:
        examples += read(options.more)
    loaded = load_model(options.model, compute_dtype=torch.bfloat16)
    loaded.model.requires_grad_(True)
    network = Network(2 * loaded.model.config.hidden_size)
    begin(network, options.fit)
    tuner = Tuner(loaded, network, options)
    tuner.train(examples, read(options.texts / "val.jsonl"))
    make_folder(options.output)
    origin = describe_origin()
    settings = {
        n: v.name if isinstance(v, Path) else v
        for n, v in vars(options).items()
        if n not in ("texts", "output")
    }
    provenance = {"finetuned_from": dict(loaded.provenance), **origin}
    save_model(options.output, loaded.model, loaded.profile, provenance, tokenizer=loaded.tokenizer)
    state: dict[str, Any] = {n: tensor.numpy() for n, tensor in network.arrays().items()}
    np.savez(options.output / "fit.npz", allow_pickle=False, **state)
    write_json(options.output / "fit.json", {"options": settings, "origin": origin}, "a result")


def begin(network: Network, folder: Path) -> None:
    """Take over a fit."""
    with np.load(folder / "fit.npz") as fit, torch.no_grad():
        network.center, network.scale = torch.tensor(fit["center"]), torch.tensor(fit["scale"])
        network.affine.weight.copy_(torch.tensor(fit["weight"]))
        network.affine.bias.copy_(torch.tensor(fit["bias"]))


class Tuner:
    """A network and its head, which learn together."""

    def __init__(self, loaded: LoadedModel, network: Network, options: Options):
        self.loaded, self.network, self.options = loaded, network, options
        model = loaded.model
        self.groups: list[dict[str, Any]] = [
            {"params": [*model.parameters()], "lr": options.lr, "weight_decay": options.decay},
            {"params": [*network.affine.parameters()], "lr": options.head_lr, "weight_decay": 1e-4},
            {"params": [*network.bags.parameters()], "lr": options.bag_lr, "weight_decay": 1e-5},
        ]
        self.learning = [p for group in self.groups[:2] for p in group["params"]]

    def train(self, examples: Sequence[Example], val: Sequence[Example]) -> None:
        """Minimize what LabelLoss says, and the cost of the next token."""
        options, network = self.options, self.network
        tokens, bags = self.encode(examples)
        val_tokens, val_bags = self.encode(val)
        loss_of = LabelLoss(examples, options.reviews, options.grammar, options.phrases)
        optimizer = torch.optim.AdamW(self.groups, fused=True)
        steps = options.epochs * (len(examples) // options.batch)
        rate = falling_rate(optimizer, steps)
        self.report(val, val_tokens, val_bags, 8)
        sums, since = np.zeros(3), time.monotonic()
        shown = since
        for number, rows in enumerate(batches([len(t) for t in tokens], options), start=1):
            states, nats = states_of(
                self.loaded.model.train(),
                [tokens[row] for row in rows],
                predicts=number % PREDICTED == 0,
            )
            loss = loss_of(network.train()(states, *bag_of(bags, rows), options.dropout), rows)
            optimizer.zero_grad()
            (loss + options.lm_weight * nats).backward()
            torch.nn.utils.clip_grad_norm_(self.learning, CLIP)
            optimizer.step()
            rate.step()
            sums += loss.item(), nats.item() * PREDICTED, sum(len(tokens[row]) for row in rows)
            if number % 50 == 0:
                spent = time.monotonic() - since
                print(
                    f"{number} of {steps}: loss {sums[0] / 50:.4f}, "
                    f"{sums[1] / 50 / math.log(2):.3f} bits "
                    f"a token, {sums[2] / spent:,.0f} tokens/s",
                    flush=True,
                )
                sums, since = np.zeros(3), time.monotonic()
            if number == steps or (
                options.minutes and time.monotonic() - shown > 60 * options.minutes
            ):
                self.report(val, val_tokens, val_bags, 1 if number == steps else 8)
                shown = since = time.monotonic()

    def encode(self, examples: Sequence[Example]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the tokens of texts and the buckets of their n-grams."""
        profile, tokenizer = self.loaded.profile, self.loaded.tokenizer
        tokens, bags = [], []
        for example in examples:
            text = profile.encode(without_tags(example.text))
            tokens.append(tokenizer.encode(text)[-self.options.longest :])
            bags.append(buckets_of(text.decode(), BUCKETS))
        return tokens, bags

    def report(
        self,
        val: Sequence[Example],
        tokens: Sequence[np.ndarray],
        bags: Sequence[np.ndarray],
        every: int,
    ) -> None:
        """Print the accuracy on val, by group."""
        rows = np.arange(0, len(val), every)
        order = rows[np.argsort([len(tokens[row]) for row in rows.tolist()], kind="stable")]
        stars = np.zeros((len(val), 5))
        with torch.inference_mode():
            for first in range(0, len(order), 256):
                part = order[first : first + 256]
                states, _ = states_of(
                    self.loaded.model.eval(), [tokens[row] for row in part.tolist()]
                )
                stars[part] = self.network.eval()(states, *bag_of(bags, part)).exp().numpy()
        print(summary_of([val[row] for row in rows.tolist()], stars[rows]), flush=True)


def bag_of(bags: Sequence[np.ndarray], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the buckets of some texts, end to end, and how many each has."""
    parts = [bags[row] for row in rows.tolist()]
    return np.concatenate(parts), np.array(list(map(len, parts)))


def states_of(
    model: LanguageModel,
    texts: Sequence[np.ndarray],
    *,
    predicts: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the last and the mean hidden state of texts, [B, 2H], and the mean cost of a token.

    Shorter texts are filled up at their end, where what follows changes nothing.
    """
    weights = model.prepare_weights()
    lengths = torch.tensor([len(text) for text in texts])
    B, T = len(texts), int(lengths.max())
    filled = torch.zeros(B, T, dtype=torch.int64)
    for row, text in enumerate(texts):
        filled[row, : len(text)] = torch.from_numpy(text.astype(np.int64))
    h, _ = model.hidden(filled, model.initial_state(B), weights)  # [T, B, H]
    inside = torch.arange(T)[:, None] < lengths  # [T, B]
    nats = h.new_zeros((), dtype=torch.float32)
    if predicts:
        targets = filled.t()[1:].masked_fill(~inside[1:], IGNORED)
        total = linear_cross_entropy(
            h[:-1].flatten(0, 1), weights.w_out, weights.b_out, targets.flatten()
        )
        nats = total / inside[1:].sum()
    last = h[lengths - 1, torch.arange(B)].float()
    mean = (h.float() * inside[..., None]).sum(0) / lengths[:, None]
    return torch.cat([last, mean], 1), nats


def batches(lengths: Sequence[int], options: Options) -> Iterator[np.ndarray]:
    """Yield the rows of each batch, of similar lengths; what is left of an epoch is left out."""
    draw = np.random.default_rng(options.seed)
    sizes = np.asarray(lengths)
    for _ in range(options.epochs):
        order = draw.permutation(len(sizes))
        parts = []
        for first in range(0, len(order), POOL * options.batch):
            pool = order[first : first + POOL * options.batch]
            pool = pool[np.argsort(sizes[pool], kind="stable")]
            parts += [pool[i : i + options.batch] for i in range(0, len(pool), options.batch)]
        full = [part for part in parts if len(part) == options.batch]
        for place in draw.permutation(len(full)):
            yield full[place]


def summary_of(val: Sequence[Example], stars: np.ndarray) -> dict[str, float]:
    """Return the mean accuracy of the everyday sources, with a side and of three; of reviews."""
    sides = np.array([SIDES[example.label] for example in val])
    sources = np.array([example.source for example in val])
    three = np.column_stack([stars[:, :2].sum(1), stars[:, 2], stars[:, 3:].sum(1)])
    positive = three[:, 2] > three[:, 0]
    found: dict[str, float] = {}
    for name, own_sources in GROUPS.items():
        own = np.isin(sources, own_sources)
        sided = own & (sides != 0)
        if sided.any():
            found[f"{name}, side"] = float((positive[sided] == (sides[sided] > 0)).mean())
        if (sides[own] == 0).any():
            found[f"{name}, three"] = float((three[own].argmax(1) - 1 == sides[own]).mean())
    means = {}
    for kind in ("everyday, side", "everyday, three", "reviews, side"):
        part, _, asked = kind.partition(", ")
        values = [
            value
            for name, value in found.items()
            if name.endswith(f", {asked}")
            and (name.partition(", ")[0] in REVIEW_GROUPS) == (part == "reviews")
        ]
        means[f"mean, {kind}"] = float(np.mean(values))
    return {name: round(100 * value, 2) for name, value in {**means, **found}.items()}


if __name__ == "__main__":
    command.run(main)
