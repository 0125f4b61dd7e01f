"""Fits a head again to a user's answers, on the states of a model that stays as it is.

A head answers questions: which side a text takes, and whether it takes none; or, of more classes,
whether it is of each. The new log-odds of a question are slope x old + offset + weights . states: a
logistic regression with a normal prior around the old head, so that few rows change little.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..errors import NOTHING_WORTH_KEEPING, InputError
from .answers import (
    NEUTRAL,
    NO_ANSWER,
    UNFAMILIAR,
    UNSURE,
    likeliest,
    named_answers,
    named_by,
    probability_of_each,
    unknown_answer,
)
from .head import THRESHOLD, Head
from .steps import (
    Correction,
    Learned,
    LogOdds,
    OneVsRest,
    Probabilities,
    Sigmoid,
    Softmax,
    Standardize,
    Step,
)

LEAST_ROWS = 30
ENOUGH_ROWS = 100  # to say how far `sentiment` is off
FOLDS = 10
MOST_DIRECTIONS = 256  # of the states, those in which the rows differ most
_STRENGTH = 0.3  # precision of the prior on weights of states of length 1; chosen in a study
_PRIOR = (1.0, 0.0)  # slope and offset of the old head; the precision of the prior on both is 1
_MOST_STEPS = 30  # of Newton's method
_CLOSE = 1e-3  # change of log-odds after which it ends
_LEAST = 1e-9  # probability
_OTHER_CLASSES = "; for classes of your own, train a classifier: docs/transfer.md"
_MARGIN = 1.96  # standard errors to either end of a 95 % interval


class NotBetter(InputError):
    """What was learned is not better than the head that was there."""

    exit_code = NOTHING_WORTH_KEEPING


class LearnedHead(NamedTuple):
    """A head that was fitted again, and what cross-validation says of it.

    Each row was answered by a head that was fitted to the rows of the other folds.
    """

    head: Head  # fitted to all rows
    before: np.ndarray  # bool [N], which rows the old head answers correctly
    after: np.ndarray  # bool [N]
    losses: np.ndarray
    """Negative logarithm of the right answer's probability, float64 [N, 3]: before, after, and if
    only the frequencies of the answers were known."""
    left_out: Counter[str]  # rows, by the reason
    surplus: np.ndarray | None = None
    """The old head's `sentiment` minus the right one (1, 0 or -1), float64 [N]; None if there are
    not two classes."""

    @property
    def gain(self) -> tuple[float, float, float]:
        """The fraction of rows gained, with the ends of its 95 % interval.

        For the same rows before and after (Agresti and Min 2005): half a row is added to each of
        the four counts.
        """
        change = self.after.astype(int) - self.before
        count, gained = len(change) + 2, change.sum()
        variance = (np.abs(change).sum() + 1 - gained**2 / count) / count**2
        margin = _MARGIN * float(np.sqrt(variance))
        low, high = np.clip([gained / count - margin, gained / count + margin], -1, 1).tolist()
        return float(change.mean()), low, high

    @property
    def offset(self) -> tuple[float, float, float] | None:
        """What to subtract from a mean of the old head's `sentiment`, with its 95 % interval.

        For many texts of the same origin; None if there are too few rows to say so.
        """
        if self.surplus is None or len(self.surplus) < ENOUGH_ROWS:
            return None
        mean = float(self.surplus.mean())
        margin = _MARGIN * float(self.surplus.std()) / len(self.surplus) ** 0.5
        return mean, mean - margin, mean + margin

    @property
    def is_better(self) -> bool:
        """Whether more rows are right, and the texts say more than how frequent answers are.

        Both beyond a 95 % interval: else a frequent answer alone would improve a poor head.
        """
        known = self.losses[:, 2] - self.losses[:, 1]
        return self.gain[1] > 0 and known.mean() > _MARGIN * known.std() / len(known) ** 0.5

    def lines(self) -> list[str]:
        gain, low, high = (100 * number for number in self.gain)
        before, after, alike = self.losses.mean(0)
        off = "`sentiment` before: on average {:+.2f} too high ({:+.2f} to {:+.2f})"
        return [
            f"right, of {len(self.before):,} rows in {FOLDS} folds: {self.before.mean():.1%} "
            f"before, {self.after.mean():.1%} after",
            f"gain: {gain:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})",
            f"log loss: {before:.3f} before, {after:.3f} after, {alike:.3f} if every text got the "
            "frequencies of the answers",
            *([] if self.offset is None else [off.format(*self.offset)]),
        ]

    def summary(self) -> dict[str, Any]:
        return {
            "rows": len(self.before),
            "left_out": dict(self.left_out),
            "folds": FOLDS,
            "right_before": float(self.before.mean()),
            "right_after": float(self.after.mean()),
            "gain_interval": list(self.gain[1:]),
            "log_losses": self.losses.mean(0).tolist(),
            "offset": self.offset,
        }


class Corrections(NamedTuple):
    """Texts with the right answers."""

    texts: list[str]
    labels: list[str]
    left_out: Counter[str]  # rows, by the reason

    @classmethod
    def of(
        cls,
        rows: Iterable[tuple[str, str | None, str]],
        names: Sequence[str],
        learned: Collection[str] = (),
    ) -> "Corrections":
        """Return the rows to learn from; InputError for too few of them, and for another label.

        rows: the place of each, its text (None where it is no answer) and its label. names: of the
        answers. A row that classify could not decide, and nobody did, is left out; so is a text
        that the head has learned from before, whose answer would tell nothing of other texts.
        learned: the digests of these.
        """
        abstained = (NEUTRAL, UNSURE, UNFAMILIAR, NO_ANSWER)
        labels, left_out = dict[str, set[str]](), Counter[str]()
        for place, text, label in rows:
            name = named_by(label, names) or named_by(label, abstained)
            if name is None:
                known = [*dict.fromkeys([*names, *abstained])]
                raise unknown_answer(place, label, known, _OTHER_CLASSES)
            if text is None or name not in names:
                left_out[NO_ANSWER if text is None else name] += 1
                continue
            if digest_of(text) in learned:
                left_out["learned before"] += 1
                continue
            left_out["repeated"] += text in labels
            labels.setdefault(text, set()).add(name)
        chosen = {text: each.pop() for text, each in labels.items() if len(each) == 1}
        left_out["with two different labels"] = len(labels) - len(chosen)
        if len(chosen) < LEAST_ROWS or len(set(chosen.values())) < 2:
            reasons = "".join(f", {count:,} {why}" for why, count in (+left_out).items())
            raise InputError(
                f"{len(chosen):,} rows to learn from, with labels "
                f"{', '.join(sorted(set(chosen.values()))) or '(none)'}{reasons}; give "
                f"{LEAST_ROWS} or more, with two different labels"
            )
        return cls(list(chosen), list(chosen.values()), +left_out)


def digest_of(text: str) -> str:
    """Return what a head keeps of a text that it has learned from."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def learn(
    head: Head,
    features: np.ndarray,
    corrections: Corrections,
    texts: Sequence[str] | None = None,
    *,
    sides: bool = False,
) -> LearnedHead:
    """Fit a head to rows with the right answers, and compare it with the old one.

    features: [N, F] of the model; texts: as the model reads them, for a head that also uses their
    words; sides: two sides only, neutral is no answer.
    """
    names = named_answers(head, sides=sides)
    right = np.array([names.index(label) for label in corrections.labels])
    rows = _Rows(_prepared(head), features, _targets(head, right, len(names)), texts)
    everything = np.arange(len(right))
    before = rows.answers(head, everything, sides=sides)
    after = tuple(map(np.zeros_like, before))
    for others, held_out in _folds(right):
        fold = rows.answers(rows.fitted(others), held_out, sides=sides)
        for whole, part in zip(after, fold, strict=True):
            whole[held_out] = part
    counts = np.bincount(right, minlength=len(names))
    chances = [each[everything, right] for each in (before[1], after[1])]
    chances.append(counts[right] / len(right))
    surplus = None
    if head.is_binary:
        surplus = 2 * (head.probabilities(features, texts) - right / (len(names) - 1))
    return LearnedHead(
        head=replace(
            rows.fitted(everything), learned=head.learned.union(map(digest_of, corrections.texts))
        ),
        before=before[0] == right,
        after=after[0] == right,
        losses=-np.log(np.column_stack(chances).clip(_LEAST)),
        left_out=corrections.left_out,
        surplus=surplus,
    )


def _prepared(head: Head) -> Head:
    """Return a head that answers the same, with steps that learning replaces.

    Probabilities are compared at one half, to which those that are learned refer.
    """
    if head.is_binary and head.threshold != THRESHOLD:
        head = head.with_threshold(THRESHOLD)
    if any(step.NAME == Correction.NAME for step in head.steps):
        return head
    *steps, link = head.steps
    classes = 1 if head.is_binary else len(head.classes)
    if link.NAME == Softmax.NAME:
        steps += [Probabilities(classes), LogOdds()]
    questions = classes + head.has_neutral
    learned = Learned(np.zeros((questions, head.features)))
    steps.insert(int(steps[0].NAME == Standardize.NAME), learned)
    correction = Correction((1.0,) * questions, (0.0,) * questions)
    link = link if head.is_binary else OneVsRest()
    return replace(head, steps=(*steps, correction, link), unit=head.own_unit)


def _targets(head: Head, right: np.ndarray, answers: int) -> np.ndarray:
    """Return the answer to each question, [N, questions]: 0 or 1, NaN where it is not asked."""
    if not head.is_binary:
        return np.eye(answers)[right]
    neutral = (right == 1) & (answers == 3)
    side = np.where(neutral, np.nan, right == answers - 1)[:, None]
    if not head.has_neutral:
        return side
    return np.column_stack([side, neutral if answers == 3 else np.full(len(right), np.nan)])


def _folds(right: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    order = np.random.default_rng(0).permutation(len(right))
    order = order[np.argsort(right[order], kind="stable")]
    for fold in range(FOLDS):
        held_out = np.arange(len(right)) % FOLDS == fold
        yield order[~held_out], order[held_out]


class _Rows:
    """Rows with right answers, in the directions of the states in which they differ most."""

    def __init__(
        self, old: Head, features: np.ndarray, targets: np.ndarray, texts: Sequence[str] | None
    ):
        self.old, self.features, self.targets, self.texts = old, features, targets, texts
        answer = old.answer(features, texts)
        scores = answer.scores.reshape(len(features), -1)
        neutral = [] if answer.neutral is None else [LogOdds().map(answer.neutral)]
        self.odds = np.column_stack([scores, *neutral])
        states = features.astype(np.float64)
        if old.steps[0].NAME == Standardize.NAME:
            states = old.steps[0].map(states)
        length = float(np.sqrt((states**2).sum(1).mean())) or 1.0
        _, _, directions = np.linalg.svd(states, full_matrices=False)
        self.directions = directions[:MOST_DIRECTIONS] / length
        self.places = states @ self.directions.T  # of unit length on average

    def answers(
        self, head: Head, rows: np.ndarray, *, sides: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a head's choices [N], and its probabilities of each answer, [N, answers]."""
        texts = None if self.texts is None else [self.texts[row] for row in rows]
        output = head.answer(self.features[rows], texts)
        return likeliest(head, output, sides=sides), probability_of_each(head, output, sides=sides)

    def fitted(self, rows: np.ndarray) -> Head:
        fits = [self._fit(question, rows) for question in range(self.targets.shape[1])]
        weights, slopes, offsets = map(np.array, zip(*fits, strict=True))

        def corrected(step: Step) -> Step:
            if isinstance(step, Learned):
                return Learned(slopes[:, None] * step.weight + weights)
            if isinstance(step, Correction):
                offset = slopes * step.offsets + offsets
                return Correction(tuple((slopes * step.slopes).tolist()), tuple(offset.tolist()))
            return step

        return replace(self.old, steps=tuple(map(corrected, self.old.steps)))

    def _fit(self, question: int, rows: np.ndarray) -> tuple[np.ndarray, float, float]:
        rows = rows[~np.isnan(self.targets[rows, question])]
        if not len(rows):
            return np.zeros(self.directions.shape[1]), *_PRIOR
        design = np.column_stack([self.places[rows], self.odds[rows, question], np.ones(len(rows))])
        *weights, slope, offset = _regression(design, self.targets[rows, question])
        return np.array(weights) @ self.directions, slope, offset


def _regression(design: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the coefficients of a logistic regression with that prior, by Newton's method."""
    centre, precision = np.zeros(design.shape[1]), np.full(design.shape[1], _STRENGTH)
    centre[-len(_PRIOR) :], precision[-len(_PRIOR) :] = _PRIOR, 1
    odds = np.zeros(len(design))
    for _ in range(_MOST_STEPS):
        chances = Sigmoid().map(odds)
        curvature = (chances * (1 - chances)).clip(_LEAST)
        hessian = (design.T * curvature) @ design + np.diag(precision)
        towards = design.T @ (curvature * odds + targets - chances) + precision * centre
        coefficients = np.linalg.solve(hessian, towards)
        before, odds = odds, design @ coefficients
        if np.abs(odds - before).max() < _CLOSE:
            break
    return coefficients
