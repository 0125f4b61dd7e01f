"""Fit a head to the frozen states of a shipped network, together with two bags of n-grams.

python -m experiments.everyday_english.fit --model default --texts data/everyday --output runs/anew
python -m experiments.everyday_english.fit --model default --texts data/everyday --begin shipped \\
    --reviews 2 --grammar 1.5 --lr 3e-4 --bag-lr 1e-3 --output runs/onward

All is linear before the softmax: the states, the n-grams of the two sides and those of neutral. So
a weighted mean of fits (`ship.py`) is again a head of the same size.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import nn

from configs import command
from data_utils.provenance import describe_origin
from experiments.everyday_english.texts import Example, read
from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.engine.features import read_features
from mlstm_sentiment.files.writer import make_folder, write_json
from mlstm_sentiment.head.ngrams import buckets_of
from mlstm_sentiment.head.steps import Ngrams, Standardize

BUCKETS = 2**19
AT_ONCE = 4096  # texts whose states are computed together
ALLOWED = {  # stars of each label
    "negative": (1, 1, 0, 0, 0),
    "neutral": (0, 0, 1, 0, 0),
    "positive": (0, 0, 0, 1, 1),
    **{str(star): tuple(int(star == other) for other in range(1, 6)) for star in range(1, 6)},
}
SIDES = {"negative": -1, "1": -1, "2": -1, "neutral": 0, "3": 0, "positive": 1, "4": 1, "5": 1}
STAR_WEIGHTS = (0.0, 0.0, 0.5, 1.0, 1.0)  # how positive one to five stars are
NEUTRAL = (0.0, 0.0, 1.0, 0.0, 0.0)  # the star that the neutral bag moves
REVIEWS = ("amazon", "titles", "imdb", "imdb_whole", "sst")
MOST = 4.0  # the weight of a text
WARM_UP = 50  # steps


@dataclass(frozen=True)
class Options:
    """Write fit.npz: center, scale, weight, bias and bags; and fit.json, the options."""

    texts: Path
    """The folder of experiments.everyday_english.texts."""
    output: Path
    """The folder to write."""
    model: str = "default"
    """A shipped model."""
    begin: Literal["zero", "shipped"] = "zero"
    """From zero, or from the head that the model is shipped with."""
    epochs: int = 2
    batch: int = 512
    lr: float = 1e-3
    bag_lr: float = 3e-3
    dropout: float = 0.3
    reviews: float = 1.0
    """The weight of a review."""
    grammar: float = 1.0
    """The weight of a sentence of the grammar."""
    phrases: float = 0.5
    """The weight of one of SST's phrases."""
    seed: int = 0


class Inputs(NamedTuple):
    """Texts as a head gets them."""

    features: np.ndarray  # float16 [N, F]
    buckets: np.ndarray  # int64, of all texts, end to end
    starts: np.ndarray  # int64 [N + 1]

    def of(self, rows: np.ndarray) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
        """Return the states of some texts, their buckets end to end, and how many each has."""
        sizes = self.starts[rows + 1] - self.starts[rows]
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1]) - np.repeat(ends - sizes - self.starts[rows], sizes)
        return torch.from_numpy(self.features[rows]).float(), self.buckets[places], sizes


def main() -> None:
    options = command.parse(Options, __doc__)
    torch.manual_seed(options.seed)
    examples = read(options.texts / "train.jsonl")
    classifier = SentimentClassifier.from_pretrained(options.model)
    inputs = inputs_of(classifier, examples, options.texts / f"train_{options.model}.npz")
    network = Network(inputs.features.shape[1])
    if options.begin == "shipped":
        begin(network, classifier)
    else:
        some = inputs.features[::23].astype(np.float32)
        network.center, network.scale = torch.tensor(some.mean(0)), torch.tensor(some.std(0) + 1e-3)
    train(network, inputs, examples, options)
    make_folder(options.output)
    state: dict[str, Any] = {n: tensor.numpy() for n, tensor in network.arrays().items()}
    np.savez(options.output / "fit.npz", allow_pickle=False, **state)
    settings = {n: value for n, value in vars(options).items() if n not in ("texts", "output")}
    write_json(
        options.output / "fit.json", {"options": settings, "origin": describe_origin()}, "a result"
    )


class Network(nn.Module):
    """Log probabilities of one to five stars from states and n-grams."""

    def __init__(self, features: int):
        super().__init__()
        self.center, self.scale = torch.zeros(features), torch.ones(features)
        self.affine = nn.Linear(features, len(STAR_WEIGHTS))
        self.bags = nn.EmbeddingBag(BUCKETS, 2, mode="sum")
        nn.init.zeros_(self.bags.weight)
        self.tilts = torch.tensor([STAR_WEIGHTS, NEUTRAL]) - 0.5

    def forward(
        self, states: torch.Tensor, buckets: np.ndarray, sizes: np.ndarray, dropout: float = 0.0
    ) -> torch.Tensor:
        states = nn.functional.dropout((states - self.center) / self.scale, dropout, self.training)
        starts = np.cumsum(sizes) - sizes
        sums = self.bags(torch.from_numpy(buckets), torch.from_numpy(starts))
        odds = sums / torch.from_numpy(np.maximum(sizes, 1)).float().sqrt()[:, None]
        return torch.log_softmax(self.affine(states) + odds @ self.tilts, 1)

    def arrays(self) -> dict[str, torch.Tensor]:
        """Return everything that was learned."""
        return {
            "center": self.center,
            "scale": self.scale,
            "weight": self.affine.weight.detach(),
            "bias": self.affine.bias.detach(),
            "bags": self.bags.weight.detach(),
        }


def begin(network: Network, classifier: SentimentClassifier) -> None:
    """Take over the weights of the head that the model is shipped with."""
    steps = {step.NAME: step for step in reversed(classifier.fitted.steps)}
    standardize, affine, ngrams = steps["standardize"], steps["affine"], steps["ngrams"]
    assert isinstance(standardize, Standardize)
    assert isinstance(ngrams, Ngrams)
    network.center = torch.tensor(standardize.center)
    network.scale = torch.tensor(standardize.scale)
    with torch.no_grad():
        network.affine.weight.copy_(torch.tensor(affine.arrays()["weight"]))
        network.affine.bias.copy_(torch.tensor(affine.arrays()["bias"]))
        weights = ngrams.weights.astype(np.float32) * ngrams.scale
        network.bags.weight[:, 0] = torch.tensor(weights)


def train(network: Network, inputs: Inputs, examples: Sequence[Example], options: Options) -> None:
    """Minimize what LabelLoss says."""
    loss_of = LabelLoss(examples, options.reviews, options.grammar, options.phrases)
    groups = [
        {"params": [*network.affine.parameters()], "lr": options.lr, "weight_decay": 1e-4},
        {"params": [*network.bags.parameters()], "lr": options.bag_lr, "weight_decay": 1e-5},
    ]
    optimizer = torch.optim.AdamW(groups)
    steps = options.epochs * (len(examples) // options.batch)
    rate = falling_rate(optimizer, steps)
    total = 0.0
    for number, rows in enumerate(batches(len(examples), options), start=1):
        loss = loss_of(network(*inputs.of(rows), options.dropout), rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
        total += loss.item()
        if number % 200 == 0:
            print(f"{number} of {steps}: loss {total / 200:.4f}", flush=True)
            total = 0.0


class LabelLoss:
    """Minus the log of the total probability of the stars that each label allows, weighted."""

    def __init__(self, examples: Sequence[Example], reviews: float, grammar: float, phrases: float):
        factors = {"grammar": grammar, "sst5_phrases": phrases}
        self.allowed = torch.tensor([ALLOWED[example.label] for example in examples]).bool()
        self.weights = torch.tensor(weights_of(examples, reviews, factors)).float()

    def __call__(self, scores: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        """Return the mean over a batch; scores: log probabilities [B, 5] of these rows."""
        right = torch.logsumexp(scores.masked_fill(~self.allowed[rows], -1e9), 1)
        return -(right * self.weights[rows]).mean()


def falling_rate(
    optimizer: torch.optim.Optimizer, steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """Return a rate that rises over the first steps, and falls to zero."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / WARM_UP) * (1 - step / steps)
    )


def batches(texts: int, options: Options) -> Iterator[np.ndarray]:
    """Yield the rows of each batch; what is left of an epoch is left out."""
    draw = np.random.default_rng(options.seed)
    for _ in range(options.epochs):
        order = draw.permutation(texts)
        for first in range(0, texts - options.batch + 1, options.batch):
            yield np.sort(order[first : first + options.batch])


def weights_of(
    examples: Sequence[Example], reviews: float, factors: Mapping[str, float]
) -> np.ndarray:
    """Return the weight of each text: within a source, both sides weigh the same.

    reviews: the weight of a review; factors: those of other sources, if not 1.
    """
    sources = np.array([example.source for example in examples])
    sides = np.array([SIDES[example.label] for example in examples])
    weights = np.ones(len(examples))
    for source in np.unique(sources):
        own = sources == source
        positive, negative = own & (sides > 0), own & (sides < 0)
        if positive.any() and negative.any():
            half = (positive.sum() + negative.sum()) / 2
            weights[positive] *= half / positive.sum()
            weights[negative] *= half / negative.sum()
        weights[own] *= factors.get(source, reviews if source in REVIEWS else 1.0)
    weights = np.minimum(weights, MOST)
    return np.asarray(weights / weights.mean())


def inputs_of(classifier: SentimentClassifier, examples: Sequence[Example], cache: Path) -> Inputs:
    """Return the states and n-grams of texts, from the cache if they are there."""
    if cache.is_file():
        with np.load(cache) as arrays:
            return Inputs(*(arrays[name] for name in Inputs._fields))
    encoded = classifier.encode([example.text for example in examples])
    order = np.argsort([len(text) for text in encoded.encoded], kind="stable")
    features = np.zeros((len(examples), classifier.fitted.features), np.float16)
    for first in range(0, len(order), AT_ONCE):
        rows = order[first : first + AT_ONCE]
        tokens = [encoded.tokens[row] for row in rows]
        features[rows] = read_features(classifier.loaded, tokens, classifier.fitted.kind)[0]
    buckets = [buckets_of(text.decode(), BUCKETS) for text in encoded.encoded]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in buckets])])
    inputs = Inputs(features, np.concatenate(buckets), starts)
    np.savez(cache, **inputs._asdict())
    return inputs


if __name__ == "__main__":
    command.run(main)
