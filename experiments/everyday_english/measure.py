"""Measure heads and other methods on the val or test tenths of the labelled texts.

python -m experiments.everyday_english.measure --texts data/everyday --part val --methods default
python -m experiments.everyday_english.measure --texts data/everyday --part test \\
    --methods default default_small vader bag_public
python -m experiments.everyday_english.measure --texts data/everyday --part test --data DATA \\
    --methods bag_all
python -m experiments.everyday_english.measure --texts data/everyday --part test \\
    --methods minilm --most 150    # slow: a sample of each group
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from configs import command
from data_utils.provenance import describe_origin
from experiments.board.methods import STRENGTHS, Vader, minilm_embedding, regression
from experiments.board.sets import SEED, TEST_SETS, read_set
from experiments.calibration import error_and_null
from experiments.everyday_english.fit import BUCKETS, REVIEWS, SIDES
from experiments.everyday_english.language import hashed
from experiments.everyday_english.texts import Example, kinds_of, read
from experiments.intervals import packed_answers
from experiments.results import write_result
from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import ALIASES
from mlstm_sentiment.head.answers import probability_of_each
from mlstm_sentiment.head.ngrams import buckets_of
from transfer.regression import accuracy_interval

GROUPS = {
    "app reviews": ("app_reviews",),
    "hotel remarks": ("booking_parts",),
    "Reddit comments": ("goemotions",),
    "tweets, 2013 to 2017": ("semeval_tweets",),
    "developers' texts": ("se_texts", "stackoverflow_senti4sd"),
    "requests": ("clinc_requests",),
    "everyday tweets": ("kaggle_tweets",),
    "tweets to airlines": ("airline_tweets",),
    "remarks on employers": ("glassdoor",),
    "dialogue": ("dailydialog_reccon",),
    "lines of a series": ("meld",),
}
SETS = {  # of the board: title of the group
    "sst": "SST",
    "imdb": "IMDB (2,000)",
    "cr": "CR",
    "tweets": "tweets, SemEval-2018",
    "remarks": "everyday remarks",
}
LABELS = {0.0: "negative", 0.5: "neutral", 1.0: "positive"}
KEPT_OUT = ("app_reviews", "booking_parts", "airline_tweets", "glassdoor", "dailydialog_reccon")
HARD_KINDS = ("negation", "question", "emoji", "bug", "sarcasm")
STRENGTH = 1.0  # C of the bags
EMBEDDED = 2000  # texts to which MiniLM's regression is fitted
Method = Callable[[Sequence[str]], np.ndarray]  # probabilities of three answers, [N, 3]


@dataclass(frozen=True)
class Options:
    """Print and write accuracy and calibration, by group and kind."""

    texts: Path
    """The folder of experiments.everyday_english.texts."""
    methods: tuple[str, ...]
    """Shipped models, or the folder of one; vader; bag_public; bag_all; minilm."""
    part: str = "val"
    """val or test."""
    data: Path | None = None
    """The folder of the board's sets; without it, they are left out."""
    most: int | None = None
    """Texts drawn of each group, for a slow method."""


def main() -> None:
    options = command.parse(Options, __doc__)
    examples = read(options.texts / f"{options.part}.jsonl")
    if options.data is not None:
        for name, title in SETS.items():
            part = read_set(TEST_SETS[name], options.data)
            pairs = zip(part.texts, part.labels.tolist(), strict=True)
            examples += [Example(text, LABELS[label], title) for text, label in pairs]
    places = {
        part: {name: drawn(rows, options.most) for name, rows in groups.items()}
        for part, groups in places_of(examples).items()
    }
    every = np.unique(np.concatenate([r for part in places.values() for r in part.values()]))
    for name in options.methods:
        three = np.full((len(examples), 3), np.nan)
        answer = method_of(name, options.texts)
        three[every] = answer([examples[row].text for row in every])
        result = measured(three, examples, places)
        for group, row in (*result["groups"].items(), *result["kinds"].items()):
            print(name, group, {key: value for key, value in row.items() if "right" not in key})
        content = {"part": options.part, "most": options.most, **result}
        key = f"{options.part}_{Path(name).name}"
        write_result("everyday_english", key, {**content, "origin": describe_origin()})


def places_of(examples: Sequence[Example]) -> dict[str, dict[str, np.ndarray]]:
    """Return the rows of each group, of each kind, and of the kept-out domains, balanced."""
    sides = np.array([SIDES[example.label] for example in examples])
    sources = np.array([example.source for example in examples])
    of_each = [set(kinds_of(e)) if e.source not in SETS.values() else set() for e in examples]
    groups = {name: np.isin(sources, own) for name, own in GROUPS.items()}
    groups |= {title: sources == title for title in SETS.values()}
    kinds = {kind: np.array([kind in own for own in of_each]) for kind in HARD_KINDS}
    return {
        "groups": {name: np.flatnonzero(rows) for name, rows in groups.items() if rows.any()},
        "kinds": {name: np.flatnonzero(rows) for name, rows in kinds.items() if rows.any()},
        "kept_out": {"kept_out": balanced(sides, sources)},
    }


def drawn(rows: np.ndarray, most: int | None) -> np.ndarray:
    """Return at most so many rows, drawn at random."""
    if most is None or len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(SEED).choice(rows, most, replace=False))


def method_of(name: str, texts: Path) -> Method:
    """Return a function from texts to the probabilities of negative, neutral and positive."""
    if name == "vader":
        return vader
    if name in ("bag_public", "bag_all", "minilm"):
        sources = (*REVIEWS, "grammar") if name == "bag_public" else None
        train = [e for e in read(texts / "train.jsonl") if sources is None or e.source in sources]
        return minilm(train) if name == "minilm" else bag(train)
    if name not in (*ALIASES, *ALIASES.values()) and not Path(name).is_dir():
        raise InputError(f"method {name!r}: known are {', '.join(ALIASES)}, vader, bag_public, ...")
    classifier = SentimentClassifier.from_pretrained(name)
    head = classifier.fitted

    def answer(texts: Sequence[str]) -> np.ndarray:
        output = head.answer(*classifier.read(texts))
        assert output.neutral is not None
        return probability_of_each(head, output)

    return answer


def minilm(train: Sequence[Example]) -> Method:
    """Return a regression on embeddings of a sample of texts, of three classes."""
    embed = minilm_embedding()
    rows = np.random.default_rng(SEED).choice(len(train), EMBEDDED, replace=False)
    embedded = np.array(embed([train[row].text for row in rows]))
    sides = np.array([SIDES[train[row].label] for row in rows])
    fit = GridSearchCV(regression(1.0), {"C": STRENGTHS}, cv=5).fit(embedded, sides)
    return lambda texts: fit.predict_proba(np.array(embed(list(texts))))


def vader(texts: Sequence[str]) -> np.ndarray:
    """Return VADER's score as a side; it is neutral if the compound is within 0.05 of zero."""
    answers = Vader().answer(list(texts))
    assert answers.neutral is not None
    positive = answers.positive - 1e-9  # a tie counts as negative
    neutral = np.where(answers.neutral, 0.99, 0.01)
    return np.column_stack([(1 - positive) * (1 - neutral), neutral, positive * (1 - neutral)])


def bag(train: Sequence[Example]) -> Method:
    """Return a regression on the words and pairs of texts, of three classes."""

    def words_of(texts: Sequence[str]) -> sparse.csr_matrix:
        return hashed([buckets_of(text, BUCKETS) for text in texts], BUCKETS)

    sides = np.array([SIDES[example.label] for example in train])
    features = words_of([example.text for example in train])
    rarity = np.log(len(train) / np.bincount(features.indices, minlength=BUCKETS).clip(2))
    fit = LogisticRegression(C=STRENGTH, max_iter=60, tol=1e-3)
    fit.fit(features.multiply(rarity).tocsr(), sides)
    return lambda texts: fit.predict_proba(words_of(texts).multiply(rarity).tocsr())


def measured(
    three: np.ndarray,
    examples: Sequence[Example],
    places: Mapping[str, Mapping[str, np.ndarray]],
) -> dict[str, Any]:
    """Return the results by group, by kind, and of the kept-out domains."""
    sides = np.array([SIDES[example.label] for example in examples])
    result = {
        part: {name: judged(three[rows], sides[rows]) for name, rows in groups.items()}
        for part, groups in places.items()
    }
    return {**result, **result["kept_out"]}


def balanced(sides: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Return the rows with a side of the kept-out domains: as many positive ones as negative."""
    rows = []
    for source in KEPT_OUT:
        own = [np.flatnonzero((sources == source) & (sides == side)) for side in (-1, 1)]
        rows += [part[: min(map(len, own))] for part in own]
    return np.concatenate(rows)


def judged(three: np.ndarray, sides: np.ndarray) -> dict[str, Any]:
    """Return accuracies and errors of texts of one kind."""
    sided = sides != 0
    right_of_three = three.argmax(1) == sides + 1
    result: dict[str, Any] = {
        "texts": len(sides),
        "with a side": int(sided.sum()),
        **accuracy("three", right_of_three, np.ones(len(sides), bool)),
        "neutral": float((three[~sided].argmax(1) == 1).mean()) if (~sided).any() else None,
    }
    if not sided.any():
        return result
    every = three[:, 2] / (three[:, 0] + three[:, 2])
    positive, truth = every[sided], sides[sided] > 0
    error, null = error_and_null(positive, truth)
    return {
        **result,
        **accuracy("side", (every > 0.5) == (sides > 0), sided),
        "error of positive": error,
        "error, if calibrated": null,
        "mean above the truth": float(positive.mean() - truth.mean()),
        "errors of three": {
            answer: error_and_null(three[:, place], sides == place - 1)
            for place, answer in enumerate(("negative", "neutral", "positive"))
        },
    }


def accuracy(name: str, right: np.ndarray, asked: np.ndarray) -> dict[str, Any]:
    """Return an accuracy of the texts asked, its 95 % interval, and which of all are right."""
    mean = float(right[asked].mean())
    interval = accuracy_interval(mean, int(asked.sum()))
    return {
        name: mean,
        f"{name}_interval": interval,
        f"right_{name}": packed_answers(right & asked),
    }


if __name__ == "__main__":
    command.run(main)
