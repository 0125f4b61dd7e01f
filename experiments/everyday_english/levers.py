"""Try levers on val: seeds, weights of kinds, classes of their own, states of two networks.

python -m experiments.everyday_english.levers --texts data/everyday --former FORMER --work WORK \\
    --lever recipe    # then the others, at last: all

Each fit is of the recipe that is shipped, with one thing changed, on every third training text; the
former head is added with the share that is shipped. `recipe` is what others are compared with, so
it comes first. No test text is read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from configs import command
from data_utils.provenance import describe_origin
from experiments.everyday_english import fit as fitting
from experiments.everyday_english.fit import ALLOWED, NEUTRAL, SIDES, Inputs, Network
from experiments.everyday_english.measure import error_and_null
from experiments.everyday_english.ship import (
    MIDDLE,
    NEUTRAL_ON,
    SIDED_ON,
    fit_of,
    line,
    ngrams_of,
)
from experiments.everyday_english.texts import Example, kinds_of, read
from experiments.results import write_result
from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.head.head_files import load_head
from mlstm_sentiment.head.kinds import STAR_WEIGHTS
from mlstm_sentiment.head.ngrams import log_odds
from mlstm_sentiment.head.steps import neutral_log_odds, positive_log_odds

SHARE = 0.3  # of the former head
RATES = {"default": 2e-2, "default_small": 1e-2}
FORMER = {"default": "stars_1024", "default_small": "stars_512"}
BUG, REQUEST = (5,), (6,)  # columns of the classes of their own
SIDES_OF = {
    "app reviews": ("app_reviews",),
    "hotel remarks": ("booking_parts",),
    "Reddit": ("goemotions",),
    "tweets": ("semeval_tweets",),
    "developers": ("se_texts", "stackoverflow_senti4sd"),
    "airlines": ("airline_tweets",),
    "employers": ("glassdoor",),
    "dialogue": ("dailydialog_reccon",),
    "our own": ("own", "everyday"),
}
THREE_OF = {
    **{name: SIDES_OF[name] for name in ("Reddit", "tweets", "developers", "airlines")},
    "dialogue": ("dailydialog_reccon",),
    "our own": ("own", "everyday"),
    "everyday tweets": ("kaggle_tweets",),
    "series": ("meld",),
}
REVIEWS_OF = {
    name: (name,)
    for name in ("sst", *(f"{n} {w}" for n in ("short", "long") for w in ("product", "hotel")))
} | {"short restaurant": ("short restaurant",), "long restaurant": ("long restaurant",)}


@dataclass(frozen=True)
class Options:
    """Fit a lever, or write the result `levers`: what each gains on val, with an interval."""

    texts: Path
    """The folder of experiments.everyday_english.texts."""
    former: Path
    """The folder of the former heads of both models."""
    work: Path
    """A folder that keeps the logits of each fit."""
    lever: str
    """A name of LEVERS, to fit it; all, to judge what was fitted."""
    every: int = 3
    """The fits are to each text of this number."""


class States:
    """States of several networks, end to end."""

    def __init__(self, *arrays: np.ndarray):
        self.arrays = arrays
        self.shape = (len(arrays[0]), sum(each.shape[1] for each in arrays))

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.concatenate([each[rows] for each in self.arrays], axis=1)


class MoreClasses(Network):
    """Two classes besides the stars: bug and request, each with a bag of its own."""

    def __init__(self, features: int):
        super().__init__(features)
        self.affine = nn.Linear(features, 7)
        self.bags = nn.EmbeddingBag(fitting.BUCKETS, 4, mode="sum")
        nn.init.zeros_(self.bags.weight)
        of_bug, of_request = np.eye(7)[[5, 6]]
        tilts = [[*STAR_WEIGHTS, 0, 0.5], [*NEUTRAL, 0, 1], of_bug, of_request]
        self.tilts = torch.tensor(np.array(tilts), dtype=torch.float32) - 0.5


class Study:
    """The texts of both parts, and fits to them."""

    def __init__(self, options: Options):
        self.options = options
        self.val = read(options.texts / "val.jsonl")
        self.train = [] if options.lever == "all" else read(options.texts / "train.jsonl")
        self.some = np.arange(0, len(self.train), options.every)
        self.train = [self.train[row] for row in self.some]

    @cache  # noqa: B019
    def inputs(self, part: str, model: str) -> Inputs:
        with np.load(self.options.texts / f"{part}_{model}.npz") as arrays:
            whole = Inputs(*(arrays[name] for name in Inputs._fields))
        if part == "val":
            return whole
        places = [slice(*whole.starts[row : row + 2]) for row in self.some]
        buckets = [whole.buckets[place] for place in places]
        starts = np.concatenate([[0], np.cumsum([len(each) for each in buckets])])
        return Inputs(whole.features[self.some], np.concatenate(buckets), starts)

    def joint(self, part: str, models: Sequence[str]) -> Inputs:
        each = [self.inputs(part, model) for model in models]
        return Inputs(States(*(e.features for e in each)), each[0].buckets, each[0].starts)

    def logits(
        self,
        models: Sequence[str],
        seed: int = 0,
        factor: Callable[[Example], float] | None = None,
        network_of: type[Network] = Network,
        allowed: dict[str, tuple[int, ...]] | None = None,
    ) -> np.ndarray:
        """Fit, and return the logits of val."""
        inputs, held_out = self.joint("train", models), self.joint("val", models)
        options = fitting.Options(
            self.options.texts, Path("-"), bag_lr=RATES[models[0]], reviews=1.5, seed=seed
        )
        torch.manual_seed(seed)
        network = network_of(inputs.features.shape[1])
        some = inputs.features[::23].astype(np.float32)
        network.center, network.scale = torch.tensor(some.mean(0)), torch.tensor(some.std(0) + 1e-3)
        weights = fitting.weights_of(self.train, options)
        if factor is not None:
            weights = weights * [factor(example) for example in self.train]
            weights /= weights.mean()
        train(network, inputs, self.train, options, weights, allowed or {})
        return self.answers(network, held_out)

    def answers(self, network: Network, held_out: Inputs) -> np.ndarray:
        """Return the logits of val."""
        network.eval()
        with torch.no_grad():
            parts = [
                network(held_out, np.arange(len(self.val))[first : first + 4096])
                for first in range(0, len(self.val), 4096)
            ]
        return torch.cat(parts).numpy().astype(np.float64)

    def former(self, model: str) -> np.ndarray:
        """Return the logits of the former head."""
        classifier = SentimentClassifier.from_pretrained(model)
        units = classifier.loaded.architecture.hidden_size
        head = load_head(self.options.former / FORMER[model], units)
        fit, held_out = fit_of(head), self.inputs("val", model)
        states = held_out.features.astype(np.float32)
        logits = (states - fit["center"]) / fit["scale"] @ fit["weight"].T + fit["bias"]
        old = ngrams_of(head)
        texts = [text.decode() for text in classifier.encode([e.text for e in self.val]).encoded]
        odds = log_odds(texts, old.weights, old.scale)
        return np.asarray(logits + np.outer(odds, np.array(STAR_WEIGHTS) - 0.5))


def train(
    network: Network,
    inputs: Inputs,
    examples: Sequence[Example],
    options: fitting.Options,
    weights: np.ndarray,
    own: dict[str, tuple[int, ...]],
) -> None:
    """Do as `fit.train`, with weights of texts, and with classes of their own for some kinds."""
    classes = network.affine.out_features
    allowed = np.zeros((len(examples), classes), bool)
    for row, example in enumerate(examples):
        places = own.get(kind_of(example))
        allowed[row, list(places or np.flatnonzero(ALLOWED[example.label]))] = True
    known, by_text = torch.tensor(allowed), torch.tensor(weights).float()
    groups = [
        {"params": [*network.affine.parameters()], "lr": options.lr, "weight_decay": 1e-4},
        {"params": [*network.bags.parameters()], "lr": options.bag_lr, "weight_decay": 1e-5},
    ]
    optimizer = torch.optim.AdamW(groups)
    steps = options.epochs * (len(examples) // options.batch)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / fitting.WARM_UP) * (1 - step / steps)
    )
    for rows in fitting.batches(len(examples), options):
        scores = network(inputs, rows, options.dropout)
        right = torch.logsumexp(scores.masked_fill(~known[rows], -1e9), 1)
        loss = -(right * by_text[rows]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()


def kind_of(example: Example) -> str:
    """Return bug or request, for reports of either kind that do not praise."""
    if example.label == "positive":
        return ""
    names = {"bug": "bug", "feature_request": "request", "request": "request"}
    if example.source == "app_pan" and example.kind == "question":
        return "request"
    return names.get(example.kind, "") if example.source != "semeval_tweets" else ""


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of stars; bugs are folded into two stars, requests into three."""
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    if chances.shape[1] > len(STAR_WEIGHTS):
        chances[:, 1] += chances[:, 5]
        chances[:, 2] += chances[:, 6]
    return chances[:, : len(STAR_WEIGHTS)]


def folded(logits: np.ndarray, former: np.ndarray) -> np.ndarray:
    """Return logits of five stars: those of both, the former ones times their share."""
    return np.log(probabilities(logits).clip(1e-12)) + SHARE * former


def judged(stars: np.ndarray, val: Sequence[Example]) -> dict[str, Any]:
    """Return what `selection.json` compares, and which answers are right."""
    sides = np.array([SIDES[example.label] for example in val])
    sources = np.array([example.source for example in val])
    kinds = [set(kinds_of(example)) for example in val]
    odds, own = positive_log_odds(stars, STAR_WEIGHTS), neutral_log_odds(stars, MIDDLE)
    on, among = np.isin(sources, SIDED_ON) & (sides != 0), np.isin(sources, NEUTRAL_ON)
    slope, offset = line(odds[on], sides[on] > 0, sources[on])
    positive = 1 / (1 + np.exp(-(slope * odds + offset)))
    slope, offset = line(own[among], sides[among] == 0, sources[among])
    neutral = 1 / (1 + np.exp(-(slope * own + offset)))
    three = np.stack([(1 - positive) * (1 - neutral), neutral, positive * (1 - neutral)], 1)
    right = np.where(positive > 0.5, 1, -1) == sides
    right_of_three = three.argmax(1) - 1 == sides
    sided = sides != 0
    written = np.isin(sources, SIDES_OF["our own"])
    sarcastic = np.array([e.source == "own" and e.kind == "sarcasm" for e in val])

    def mean(groups: dict[str, tuple[str, ...]], correct: np.ndarray, of: np.ndarray) -> float:
        rows = [np.isin(sources, names) & of & ~sarcastic for names in groups.values()]
        return float(np.mean([correct[each].mean() for each in rows]))

    def among_kind(kind: str, correct: np.ndarray, of: np.ndarray) -> float:
        rows = np.array([kind in each for each in kinds]) & of & (sources != "sst5_phrases")
        return float(correct[rows].mean())

    negations = np.array([e.kind == "negation" for e in val]) & written
    everywhere = np.ones(len(val), bool)
    return {
        "sides": mean(SIDES_OF, right, sided),
        "three": mean(THREE_OF, right_of_three, everywhere),
        "reviews": mean(REVIEWS_OF, right, sided),
        "sst": float(right[sources == "sst"].mean()),
        "long": mean({n: v for n, v in REVIEWS_OF.items() if "long" in n}, right, sided),
        "negation": among_kind("negation", right, sided),
        "negation, written for val": int(right[negations].sum()),
        "bug, three": among_kind("bug", right_of_three, everywhere),
        "question, three": among_kind("question", right_of_three, everywhere),
        "sarcasm": among_kind("sarcasm", right, sided),
        "sarcasm, written for val": int(right[sarcastic].sum()),
        "error of positive": error_and_null(positive[on], sides[on] > 0)[0],
        "right": (right, right_of_three),
    }


def gains(row: dict[str, Any], base: dict[str, Any], val: Sequence[Example]) -> dict[str, Any]:
    """Return the gain in each sum, with the margin of its 95 % interval over texts, paired."""
    sides = np.array([SIDES[example.label] for example in val])
    sources = np.array([example.source for example in val])
    changes = [
        np.subtract(*map(np.int64, pair)) for pair in zip(row["right"], base["right"], strict=True)
    ]
    sarcastic = np.array([e.source == "own" and e.kind == "sarcasm" for e in val])
    parts, spread = [], 0.0
    texts: dict[int, float] = {}
    for groups, change, of in ((SIDES_OF, changes[0], sides != 0), (THREE_OF, changes[1], True)):
        total = 0.0
        for names in groups.values():
            rows = np.flatnonzero(np.isin(sources, names) & of & ~sarcastic)
            total += change[rows].mean() / len(groups)
            for place in rows:  # a text may count in both: its changes add up
                texts[place] = texts.get(place, 0) + (change[place] - change[rows].mean()) / len(
                    rows
                ) / len(groups)
        parts.append(total)
    spread = float(np.sqrt(np.square(list(texts.values())).sum()))
    return {"sides": parts[0], "three": parts[1], "sum": sum(parts), "margin": 1.96 * spread}


def main() -> None:
    options = command.parse(Options, __doc__)
    study = Study(options)
    if options.lever != "all":
        models, settings = LEVERS[options.lever]
        logits = folded(study.logits(models, **settings), study.former(models[0]))
        np.save(options.work / f"{options.lever}.npy", logits.astype(np.float32))
        return
    found = {name: options.work / f"{name}.npy" for name in LEVERS}
    rows = {
        name: judged(probabilities(np.load(path).astype(np.float64)), study.val)
        for name, path in found.items()
        if path.is_file()
    }
    for row in rows.values():
        row["gain"] = gains(row, rows["recipe"], study.val)
    for row in rows.values():
        del row["right"]
    content = {"every": options.every, "val": rows, "origin": describe_origin()}
    write_result("everyday_english", "levers", content)
    for name, row in rows.items():
        print(name, row)


def weighted(kind: str, factor: float) -> Callable[[Example], float]:
    """Return the factor of a text: another one if it is of this kind."""
    return lambda example: factor if kind in kinds_of(example) else 1.0


ONE, TWO = ("default",), ("default", "default_small")
LEVERS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "recipe": (ONE, {}),
    "two networks": (TWO, {}),
    "classes of their own": (
        ONE,
        {"network_of": MoreClasses, "allowed": {"bug": BUG, "request": REQUEST}},
    ),
    "negation, twice": (ONE, {"factor": weighted("negation", 2)}),
    "sarcasm, four times": (ONE, {"factor": weighted("sarcasm", 4)}),
    "seed 1": (ONE, {"seed": 1}),
}


if __name__ == "__main__":
    command.run(main)
