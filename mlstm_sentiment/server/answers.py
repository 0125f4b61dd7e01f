"""What the server answers to the texts of a request: what `classify` adds to their rows."""

from collections.abc import Callable

from ..head.answers import added_names
from ..head.sentiment_classifier import SentimentClassifier
from ..reading.no_answer import answered_text
from .batching import AnswerRow


class TooManyTokens(Exception):
    """A text of a request is longer than the server takes."""


def rows_of_texts(
    classifier: SentimentClassifier,
    most_tokens: int,
    texts: list[str],
    sides: bool,
    advance: Callable[[int], object] | None = None,
) -> list[AnswerRow]:
    """Return a row for each text; TooManyTokens, before any is computed, if one has more.

    sides: whether the label is to be one of two sides. advance: called every few hundredths of a
    second, with the number of tokens just processed; an error that it raises ends the computation.
    """
    answered = list(map(answered_text, texts))
    encoded = classifier.encode([text for text in answered if text is not None])
    numbers = [number for number, text in enumerate(answered, start=1) if text is not None]
    for number, tokens in zip(numbers, encoded.tokens, strict=True):
        if len(tokens) > most_tokens:
            message = f"text {number} has {len(tokens):,} tokens; at most {most_tokens:,} a text"
            raise TooManyTokens(message)
    names = added_names(classifier.fitted, sides=sides)
    return classifier.results(answered, names, sides=sides, encoded=encoded, advance=advance)
