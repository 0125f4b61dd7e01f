"""Several models on the same texts: bits per character, accuracy, the best unit, agreement."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..files.devices import DeviceName
from ..files.shipped import SHIPPED_MODELS, SOURCES_FILE, sources_of
from ..files.storage import read_json
from ..files.weights import LoadedModel, adapted
from ..inference.features import FINAL_CELL, ModelOutput, read_in_order
from ..layers.config import Precision
from .fitted import HOW_TO_FIT, find_classifier, load_fitted
from .head import Head
from .head_files import CONFIG_FILE
from .sentiment_classifier import SentimentClassifier
from .summary import Tally

PIECE = 1024  # texts that a model without a classifier processes together
MOST = 10_000  # texts, drawn at random, on which the best unit is found
FOLDS = 5  # of these texts; a fold is scored by the unit found on the others
SEED = 0  # of the texts drawn and of the folds
PLAIN = {"train", "test", "rest", "full", "head", "tail", "unlabelled"}  # words of many sources


@dataclass(frozen=True)
class ComparedTexts:
    """Texts to compare models on.

    texts: without blank ones. labels: int64 [N], 1 for the positive class; None without labels.
    digest: identifies the whole set, as `labelled_digest`; None without labels.
    """

    texts: list[str]
    labels: np.ndarray | None = None
    digest: str | None = None


class Compared(NamedTuple):
    """One model on the texts."""

    result: dict[str, Any]  # for JSON
    choices: np.ndarray | None  # int64 [N]; None unless its classifier has two classes


def compare_model(
    name: str,
    loaded: LoadedModel,
    data: ComparedTexts,
    *,
    precision: Precision = "fp32",
    device: DeviceName = "auto",
    advance: Callable[[int], object] | None = None,
) -> Compared:
    """Return what a model and its own classifier say about the texts.

    Each text starts from the zero state, as with `evaluate --reset review`. Raises InputError for a
    classifier that belongs to another model.
    """
    folder = find_classifier(loaded)
    fitted = None if folder is None else load_fitted(loaded, folder, f"fit it again. {HOW_TO_FIT}")
    loaded = adapted(loaded, precision, device)
    kind = FINAL_CELL if fitted is None else fitted.kind
    drawn = drawn_rows(data)
    characters, bits, choices, features = 0, 0.0, [], []
    start = 0
    for size, output, chosen in _outputs(loaded, fitted, data.texts, advance):
        rows = drawn[(start <= drawn) & (drawn < start + len(output.bits))] - start
        features.append(output.features[rows])
        start += len(output.bits)
        characters += size
        bits += float(output.bits.sum())
        choices.append(chosen)
    is_binary = fitted is not None and fitted.is_binary
    answers = np.concatenate(choices) if is_binary else None
    result: dict[str, Any] = {
        "model": name,
        "classes": [] if fitted is None else list(fitted.classes),
        "never_neutral": fitted is not None and fitted.has_neutral,
        "bits_per_character": bits / characters,
        "characters": characters,
    }
    if data.labels is not None:
        right = None if answers is None else answers == data.labels
        result["accuracy"], result["accuracy_interval"] = accuracy_of(right)
        names = kind.names(loaded.model.config)
        result["best_unit"] = best_unit(np.concatenate(features), data.labels[drawn], names)
    return Compared(result, answers)


def _outputs(
    loaded: LoadedModel,
    fitted: Head | None,
    texts: Sequence[str],
    advance: Callable[[int], object] | None,
) -> Iterator[tuple[int, ModelOutput, np.ndarray]]:
    """Yield, for some texts at a time, their length in bytes, the model's output, the choices."""
    if fitted is not None:
        classifier = SentimentClassifier(loaded, fitted)
        classifier.advance = advance
        encoded = classifier.encode(texts)
        lengths = iter(map(len, encoded.encoded))
        for output, predictions in classifier.outputs(encoded):
            yield sum(next(lengths) for _ in output.bits), output, predictions.choices
        return
    for first in range(0, len(texts), PIECE):
        bytes_of = list(map(loaded.profile.encode, texts[first : first + PIECE]))
        tokens = list(map(loaded.tokenizer.encode, bytes_of))
        output = read_in_order(loaded.model, tokens, advance=advance)
        yield sum(map(len, bytes_of)), output, np.zeros(len(tokens), np.int64)


def drawn_rows(data: ComparedTexts) -> np.ndarray:
    """Return the rows on which the best unit is found, in order: none without labels."""
    count = 0 if data.labels is None else len(data.texts)
    if count <= MOST:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, MOST, replace=False))


def accuracy_of(right: np.ndarray | None) -> tuple[float | None, list[float] | None]:
    """Return the fraction of right answers and its 95 % interval; None without answers."""
    if right is None:
        return None, None
    tally = Tally(right=int(right.sum()), wrong=int((~right).sum()))
    return tally.share("right"), list(tally.interval("right"))


def best_unit(
    features: np.ndarray, labels: np.ndarray, names: Sequence[str]
) -> dict[str, Any] | None:
    """Return the best single unit, and how accurate such a unit is on texts not used to find it.

    A unit with a threshold is a decision tree of depth one. The named unit is found on all texts;
    the accuracy is cross-validated. None if a class has fewer texts than FOLDS.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier

    if np.bincount(labels, minlength=2).min() < FOLDS:
        return None
    stump = DecisionTreeClassifier(max_depth=1, random_state=SEED)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    right = cross_val_predict(stump, features, labels, cv=folds) == labels
    tree = stump.fit(features, labels).tree_
    unit = int(tree.feature[0])
    if unit < 0:  # no unit differs between the texts
        return None
    accuracy, interval = accuracy_of(right)
    below, above = (tree.value[leaf][0][1] for leaf in (1, 2))
    return {
        "unit": names[unit],
        "polarity": 1 if above > below else -1,
        "accuracy": accuracy,
        "accuracy_interval": interval,
        "texts": len(labels),
    }


def agreement(models: Sequence[Compared]) -> list[list[float | None]]:
    """Return for every two models the fraction of texts with the same label; None if unknown."""
    return [
        [
            None
            if one.choices is None or other.choices is None
            else float((one.choices == other.choices).mean())
            for other in models
        ]
        for one in models
    ]


def reading_warnings(name: str, loaded: LoadedModel, data: ComparedTexts, path: Path) -> list[str]:
    """Return warnings that a model may have been trained on the texts.

    Its corpus is not part of the package, so only two cases are recognised: the labelled sets that
    its classifier was fitted or tuned on, and a file or folder named like one of its sources.
    """
    warnings = []
    folder = find_classifier(loaded)
    fitted_on = {} if folder is None else read_json(folder / CONFIG_FILE).get("origin", {})
    for split, described in fitted_on.get("data", {}).items():
        if data.digest is not None and described.get("sha256") == data.digest:
            use = "fitted" if split == "train" else "tuned"
            warnings.append(f"{name}: its classifier was {use} on exactly these texts and labels")
    if loaded.folder.parent != SHIPPED_MODELS:
        return warnings
    words = words_of(path.name.partition(".")[0]) | words_of(path.resolve().parent.name)
    sources = [source for source in sources_of(loaded.folder) if words & (words_of(source) - PLAIN)]
    if sources:
        more = f" and {len(sources) - 3} more sources" if len(sources) > 3 else ""
        warnings.append(
            f"{name}: was trained on {', '.join(sources[:3])}{more} ({SOURCES_FILE}), and "
            f"{path} has a similar name: are these texts among them?"
        )
    return warnings


def words_of(name: str) -> set[str]:
    """Return the words of three letters or more in a name, in lower case."""
    return set(re.findall(r"[a-z]{3,}", name.lower()))
