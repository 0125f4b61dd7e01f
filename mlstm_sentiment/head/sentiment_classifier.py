"""A model with its classifier: from texts to labels, probabilities and neuron values."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from ..engine.engine import Precision, as_model
from ..engine.features import features_in_parts
from ..engine.featurizer import Parameterized
from ..engine.interface import Reading, TextModel
from ..errors import InputError, checked_flag
from ..reading.labels import number_in
from ..reading.no_answer import answered_text
from ..reading.progress import ProgressBar
from ..reading.texts import unicode_text
from ..text.markup import without_tags
from ..text.profiles import checked_texts, listed_texts
from .answers import (
    NEUTRAL,
    Answer,
    Answers,
    Predictions,
    added_names,
    answers_of,
    likeliest,
    named_answers,
    probability_of_each,
    results_of_no_answer,
)
from .head import Head, HeadOutput, checked_between, checked_threshold
from .head_files import check_model, needed_classifier
from .learning import Corrections, LearnedHead, learn

_TINY = np.finfo(float).tiny
SHORTEST = 2  # bytes; a shorter text counts as unfamiliar


class _EncodedTexts(NamedTuple):
    """Texts as a model processes them."""

    encoded: list[bytes]  # cleaned, with the frame of the text profile
    tokens: list[np.ndarray]

    @property
    def size(self) -> int:
        return sum(map(len, self.tokens))


@dataclass(eq=False, repr=False)  # keeps its arguments as they are: scikit-learn asks for it
class SentimentClassifier(Parameterized):
    """Predicts the sentiment of texts: a language model, and a classifier on its features.

    Call it with one text or several for results by name: `label` is one word, positive, neutral,
    negative, unsure or unfamiliar. scikit-learn's methods take a list of strings and never abstain:
    they know the classes only, neutral among them if the classifier has it. HTML tags are left out
    everywhere. Results are in the order of the texts. Memory grows with the bytes of the texts, not
    with texts times units. scikit-learn is needed only if it calls this class. Raises InputError if
    there is no classifier, or if it was fitted on another model.

    >>> classifier = SentimentClassifier.from_pretrained()
    >>> classifier("I love it, it works perfectly.")["label"]
    'positive'

    Parameters
    ----------
    model : str, path or TextModel
        A model directory, a run directory, the name of a shipped model, or a model: an `Engine`, or
        one that the repository's `load_model` loaded for a GPU.
    classifier : str, path, Head, or None
        The folder that transfer.py wrote, or its `classifier/`; None: the one in the
        model's folder, or in `transfer/` of its run.
    threshold : float or None
        Replaces the classifier's own, for two classes; the unsure range moves with it.
    unsure : two floats or None
        For two classes: a text whose probability of the positive one lies between these two, ends
        included, is unsure. None: the classifier's own, or 0.4 to 0.6, whose log-odds
        move with the threshold: 0.9 makes 0.86 to 0.93 of these.
    sides : bool
        Two sides only: every text is positive or negative, also one that is neutral, unsure or
        unfamiliar. For a classifier of two classes.
    bits : bool
        Also return how many bits per character the model needs for each text. It takes about half
        as long again.
    precision : "exact", "fast" or None
        How the products of the shipped models are rounded; docs/speed.md compares the two. None:
        exact, or that of a model that is given.
    threads : int or None
        Texts computed in parallel. It changes the speed, not the results. None: 1, or that of a
        model that is given.
    show_progress : bool
        Show the progress on stderr.
    """

    model: str | Path | TextModel = "default"
    classifier: str | Path | Head | None = None
    _: KW_ONLY
    threshold: float | None = None
    unsure: tuple[float, float] | None = None
    sides: bool = False
    bits: bool = False
    precision: Precision | None = None
    threads: int | None = None
    show_progress: bool = False

    @classmethod
    def from_pretrained(
        cls,
        name_or_dir: str | Path = "default",
        classifier: str | Path | None = None,
        **parameters: Any,
    ) -> "SentimentClassifier":
        """Load a model and its classifier, ready to predict. parameters: those of the class."""
        return cls(name_or_dir, classifier, **parameters).fit()

    def fit(self, texts: object = None, y: Any = None) -> "SentimentClassifier":
        """Load the model and its classifier. Nothing is learned: the texts are ignored.

        To learn from your own labels, use `SentimentFeaturizer` before any scikit-learn classifier,
        or the repository's transfer.py.

        y: labels. Numeric labels, one for each class, become the names of the classes, in order.
        Raises InputError for other labels.
        """
        sides, bits = checked_flag("sides", self.sides), checked_flag("bits", self.bits)
        loaded = as_model(self.model, self.precision, self.threads)
        fitted = self._fitted(loaded)
        unsure = fitted.unsure if self.unsure is None else checked_between(self.unsure)
        classes = _named_classes(named_answers(fitted, sides=sides), y)
        # Nothing can fail from here on. Other threads check for the attribute that is set last.
        self.classes_, self.unsure_ = classes, unsure
        self.sides_, self.bits_ = sides, bits
        self.loaded_, self.fitted_ = loaded, fitted
        return self

    def _fitted(self, loaded: TextModel) -> Head:
        if self.classifier is None or isinstance(self.classifier, str | Path):
            fitted = needed_classifier(loaded, self.classifier)
        elif not isinstance(fitted := self.classifier, Head):
            raise InputError(
                f"classifier is of type {type(fitted).__name__}; give the folder of one, or a "
                "Head, such as the `fitted` of another SentimentClassifier"
            )
        elif fitted.model_digest:  # one that was never saved may have none
            check_model(loaded, fitted.model_digest, "classifier")
        options = {"threshold": self.threshold, "unsure": self.unsure, "sides": self.sides or None}
        for name, value in options.items():
            if value is not None and not fitted.is_binary:
                how = "each has its own" if fitted.several_labels else "the likeliest is taken"
                raise InputError(
                    f"{name} {value}: the classifier has {len(fitted.classes)} classes, {how}; "
                    f"leave {name} out: it is for two classes"
                )
        if self.threshold is None:
            return fitted
        return fitted.with_threshold(checked_threshold(self.threshold))

    @property
    def loaded(self) -> TextModel:
        """The model, loaded on first use."""
        self._ready()
        return self.loaded_

    @property
    def fitted(self) -> Head:
        self._ready()
        return self.fitted_

    def _ready(self) -> None:
        if not hasattr(self, "fitted_"):
            with _LOADING:
                if not hasattr(self, "fitted_"):  # another thread may have loaded it
                    self.fit()

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels, in the order of the columns of `predict_proba`."""
        return named_answers(self.fitted, sides=self.sides_)

    def predict(self, texts: Iterable[str]) -> np.ndarray:
        """Return the likeliest label of each text: str [N], or the numbers that `fit` got.

        Of two classes, the one on whose side of the threshold the probability is. Never unsure or
        unfamiliar. Where a text may have several labels: int64 [N, C], 0 or 1.
        """
        output = self._output(texts)
        choices = likeliest(self.fitted, output, sides=self.sides_)
        return choices if self.fitted.several_labels else self.classes_[choices]

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Return the probability of each class, float64 [N, C].

        A row sums to 1 unless a text may have several labels. If the classifier predicts neutral,
        the columns are negative, neutral, positive.
        """
        return probability_of_each(self.fitted, self._output(texts), sides=self.sides_)

    def predict_log_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Return the natural logarithms of `predict_proba`, float64 [N, C]."""
        with np.errstate(divide="ignore"):  # a probability may be zero
            return np.log(self.predict_proba(texts))

    def decision_function(self, texts: Iterable[str]) -> np.ndarray:
        """Return scores, float64: log-odds [N] of the second of two classes, or [N, C]."""
        output = self._output(texts)
        if output.neutral is None or self.sides_:
            return output.scores
        return np.asarray(np.log(probability_of_each(self.fitted, output).clip(_TINY)))

    def score(self, texts: Iterable[str], y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy: the fraction of texts for which exactly the labels y are predicted.

        Raises InputError if no label is one of the classes, or if one is missing, and for weights
        that are not one number for each text, or all zero.
        """
        labels, predicted = _checked_labels(y), self.predict(texts)
        if not len(predicted):
            raise InputError("no texts, so no accuracy; give at least one")
        if labels.shape != predicted.shape or _are_names(labels) != _are_names(predicted):
            raise InputError(
                f"y is {labels.dtype} {list(labels.shape)}, the predictions are {predicted.dtype} "
                f"{list(predicted.shape)}; give one label from classes_ for each text, or call "
                "fit(texts, y) first so that your numbers become the classes"
            )
        if labels.ndim == 1 and not np.isin(labels, self.classes_).any():
            raise InputError(
                f"y holds {str(labels[0])[:50]!r}, and none of the labels in classes_: "
                f"{', '.join(map(str, self.classes_[:5]))}"
            )
        right = (labels == predicted).reshape(len(predicted), -1).all(1)
        with suppress(TypeError, ValueError):
            weights = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight)
            if weights.shape == right.shape and weights.sum() > 0:
                return float(np.average(right, weights=weights))
        raise InputError("sample_weight: give one number for each text, not all zero")

    def __call__(self, texts: Any) -> Any:
        """Classify one text, or several: the results that `classify` writes, by name.

        texts: a string, or a list, array or pandas Series of them. The name of a Series is a
        header: below a question, "nothing" is no answer. A missing text (None, NaN, pandas.NA), a
        blank one or a placeholder such as N/A has the label "no answer" and no other results.
        Returns an `Answer`, a dict, for one text, else `Answers`, a list of them with `to_frame()`.

        >>> SentimentClassifier.from_pretrained()("I love it, it works perfectly.")["label"]
        'positive'
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            return self([texts])[0]
        items = listed_texts(texts)
        header = getattr(texts, "name", None) if hasattr(texts, "iloc") else None
        header = header if isinstance(header, str) else None
        given = [
            None if _is_missing(text) else unicode_text(text, f"text {n}")
            for n, text in enumerate(items, start=1)
        ]
        answered = [answered_text(text, header) for text in given]
        names = self.added_names()
        answers = self.results(answered, names, sides=self.sides_)
        return Answers(
            [Answer({"text": text, **each}) for text, each in zip(items, answers, strict=True)],
            index=getattr(texts, "index", None) if hasattr(texts, "iloc") else None,
            columns=["text", *names],
        )

    def learn(self, texts: Iterable[str], labels: Iterable[str]) -> LearnedHead:
        """Fit the classifier again to texts with the right answers; the model stays as it is.

        labels: names of the answers, as in `label`; other answers, such as unsure, are left out.
        The result has the new `head`, `is_better`, and what cross-validation says before and after.
        Raises InputError for fewer than 30 texts, and if a text may have several labels.

        >>> learned = classifier.learn(texts, labels)  # doctest: +SKIP
        >>> if learned.is_better:
        ...     save_head("my_head", learned.head)  # doctest: +SKIP
        """
        texts, labels = checked_texts(texts), list(map(str, labels))
        if len(texts) != len(labels):
            raise InputError(f"{len(texts):,} texts and {len(labels):,} labels; give one for each")
        places = (f"text {number}" for number in range(1, len(texts) + 1))
        return self.learn_rows(zip(places, map(answered_text, texts), labels, strict=True))

    def learn_rows(self, rows: Iterable[tuple[str, str | None, str]]) -> LearnedHead:
        if self.fitted.several_labels:
            raise InputError("a text may have several labels; only classifiers of one can learn")
        corrections = Corrections.of(rows, self.classes, self.fitted.learned)
        features, words = self.read(corrections.texts)
        return learn(self.fitted, features, corrections, words, sides=self.sides_)

    def read(self, texts: Sequence[str]) -> tuple[np.ndarray, list[str] | None]:
        """Return what the head takes: features [N, F], and the texts as the model reads them."""
        encoded = self.encode(texts)
        features = np.concatenate([features for _, features, _ in self._process(encoded)])
        return features, self._words(encoded.encoded)

    def added_names(self, *, neuron: bool = False) -> list[str]:
        """Return the names of the results for each text; see `answers.added_names`."""
        return added_names(self.fitted, neuron=neuron, sides=self.sides_, bits=self.bits_)

    def results(
        self,
        texts: Sequence[str | None],
        names: Sequence[str],
        *,
        sides: bool,
        encoded: _EncodedTexts | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the results for texts by name; None stands for a text that is no answer.

        names: which results. sides: as for `words_of`. encoded: the others, if they are already.
        """
        if encoded is None:
            encoded = self.encode([text for text in texts if text is not None])
        predicted = self.predict_all(encoded, advance)
        answers = answers_of(self.fitted, predicted, names, sides=sides)
        nothing = results_of_no_answer(names)
        return [nothing if text is None else next(answers) for text in texts]

    def encode(self, texts: Sequence[str]) -> _EncodedTexts:
        """Return texts as the model processes them, without HTML tags, for `predict_all`."""
        encoded = [self.loaded.profile.encode(without_tags(text)) for text in texts]
        return _EncodedTexts(encoded, list(map(self.loaded.tokenizer.encode, encoded)))

    def predict_all(
        self,
        texts: Iterable[str] | _EncodedTexts,
        advance: Callable[[int], object] | None = None,
    ) -> Predictions:
        """Return all results from one pass over the texts, as the arrays of `Predictions`.

        advance: called with the number of tokens just processed, for a progress bar of the caller.

        >>> classifier.predict_all(texts).probabilities[:, 1]  # doctest: +SKIP
        """
        options = {"familiarity": self.fitted.familiarity, "bits": self.bits_}
        batches = [
            self._predictions(encoded, features, reading)
            for encoded, features, reading in self._process(texts, advance, **options)
        ]
        return Predictions._make(map(_joined, zip(*batches, strict=True)))

    def _predictions(
        self, encoded: list[bytes], features: np.ndarray, reading: Reading
    ) -> Predictions:
        answer = self.fitted.answer(features, self._words(encoded))
        characters = np.array(list(map(len, encoded)))
        bits = None
        if reading.bits is not None:
            bits = np.where(characters > 0, reading.bits / characters.clip(min=1), np.nan)
        positive, unsure, (low, high) = answer.probabilities, None, self.unsure_
        if self.fitted.is_binary:
            unsure = (low <= positive) & (positive <= high)
        return Predictions(
            choices=self.fitted.choose(answer.probabilities),
            probabilities=probability_of_each(self.fitted, answer, sides=True),
            # A copy: a view would keep all features alive.
            neuron=features[:, self.fitted.neuron_column].copy(),
            stars=answer.stars,
            bits_per_character=bits,
            unsure=unsure,
            unfamiliar=self._unfamiliar(reading, characters, answer.foreign),
            neutral=answer.neutral,
            is_neutral=None if answer.neutral is None else likeliest(self.fitted, answer) == 1,
        )

    def _output(self, texts: Iterable[str]) -> HeadOutput:
        parts = [
            self.fitted.answer(features, self._words(encoded))
            for encoded, features, _ in self._process(texts)
        ]
        return HeadOutput._make(map(_joined, zip(*parts, strict=True)))

    def _words(self, encoded: Iterable[bytes]) -> list[str] | None:
        return [text.decode() for text in encoded] if self.fitted.uses_words else None

    def _unfamiliar(
        self, reading: Reading, characters: np.ndarray, foreign: np.ndarray | None
    ) -> np.ndarray:
        profile = self.loaded.profile
        frame = len((profile.prefix + profile.suffix).encode())
        short = characters - frame < SHORTEST
        if reading.unfamiliar is None:
            return np.array([True if is_short else None for is_short in short], dtype=object)
        # Informal texts cost many bits, too; their letters show that they are English.
        return short | (reading.unfamiliar if foreign is None else reading.unfamiliar & foreign)

    def _process(
        self,
        texts: Iterable[str] | _EncodedTexts,
        advance: Callable[[int], object] | None = None,
        **options: Any,
    ) -> Iterator[tuple[list[bytes], np.ndarray, Reading]]:
        """Yield some encoded texts at a time, with their features and what else was asked for."""
        if not isinstance(texts, _EncodedTexts):
            texts = self.encode(checked_texts(texts))
        encoded, of = iter(texts.encoded), (self.loaded, texts.tokens, self.fitted.kind)
        with ProgressBar("classify", texts.size, shown=self.show_progress) as progress:
            for each in features_in_parts(*of, advance or progress.advance, **options):
                yield list(islice(encoded, len(each[0]))), *each

    def __repr__(self) -> str:
        if not hasattr(self, "fitted_"):
            return f"SentimentClassifier({str(self.model)!r})"
        classes = ", ".join(map(str, self.classes_))
        return f"SentimentClassifier({classes}, unit {self.fitted.neuron}, {self.loaded!r})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags, more_than_two = super().__sklearn_tags__(), len(getattr(self, "classes_", ())) > 2
        tags.estimator_type = "classifier"
        # Nothing is learned from labels, so the classes stay the same.
        tags.classifier_tags = ClassifierTags(poor_score=True, multi_class=more_than_two)
        return tags


def _joined(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None


def _checked_labels(labels: Any) -> np.ndarray:
    """Return labels as an array; InputError if one is missing: None, NaN or pandas's NA."""
    objects = np.asarray(labels, dtype=object)  # NumPy turns NaN among words into a word
    if objects.ndim and any(map(_is_missing, objects.ravel())):
        raise InputError("a label is missing (None or NaN); leave out its text, or label it")
    array = np.asarray(labels)
    # Such as whole numbers in a pandas column.
    return np.array(objects.tolist()) if array.dtype == object else array


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # comparing pandas's NA with itself gives NA
        return True
    except ValueError:  # an array has no single truth value
        return False


def _are_names(labels: np.ndarray) -> bool:
    return labels.dtype.kind not in "biuf"


_LOADING = RLock()  # held by a thread that loads on first use
_WHOLE = re.compile("-?[0-9]{1,9}")  # a class that is named by a number


def _named_classes(classes: Sequence[str], labels: Any) -> np.ndarray:
    """Return the classes as the labels name them: by their names, or by numbers.

    Raises InputError if the labels do not fit the classes, or if one is missing.
    """
    checked = None if labels is None else _checked_labels(labels)
    if checked is None or checked.ndim != 1:  # for several labels per text, or for no labels
        return np.array(classes)
    distinct = np.unique(checked)
    if distinct.dtype.kind in "biuf" and len(distinct) == len(classes):
        numbers = [number_in(name) for name in classes]  # perhaps in another order
        are_names = set(numbers) == set(distinct.tolist())
        return np.array(numbers, distinct.dtype) if are_names else distinct
    if set(map(str, distinct)) <= set(classes):
        names = np.array(classes)
        are_numbers = distinct.dtype.kind in "iu" and all(map(_WHOLE.fullmatch, classes))
        return np.array(list(map(int, classes))) if are_numbers else names
    raise InputError(
        f"the labels are {', '.join(map(str, distinct[:5]))}, but the classifier's classes are "
        f"{', '.join(classes)}; use these names, or {len(classes)} numbers in the same order"
        f"{'; sides=True leaves out neutral' if NEUTRAL in classes else ''}"
    )
