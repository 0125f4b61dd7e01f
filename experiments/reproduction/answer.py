"""Say what the models reach on the published sets."""

from typing import Any

from experiments.intervals import WORDS, Difference, compare_with_published
from experiments.published_sets import SETS
from experiments.results import read_result
from experiments.tables import percent

from .table import against_words

BYTES, SUBWORDS = "amazon_1024", "amazon_subword_1024"
FINE_TUNED = 0.394  # mean F1 of eight emotions: Kant et al. 2018, 4,096 units


def answer() -> str:
    """Return the answer of README.md; its words follow the rule of experiments/intervals.py."""
    return f"""\
**Answer.** Next to the published model of 1,024 units, all units of `{BYTES}` are {compared_with_published(BYTES, "all_units")}; those of `{SUBWORDS}` are
{compared_with_published(SUBWORDS, "all_units")}. On emotions, the frozen features of `{BYTES}` are {emotions_lead().word} with a fine-tuned model of 4,096 units, and both
are behind word counts. Next to the strongest word baseline, fitted to the same labels, `{BYTES}` is {by_words(BYTES)}. `{SUBWORDS}` is
{by_words(SUBWORDS)}.

By the published rule for one unit (largest weight in the regression, refitted on each set), `{SUBWORDS}` is {compared_with_published(SUBWORDS, "one_unit")}.
By the other rule (the most accurate unit on SST's train split, applied unchanged), it is {compared_with_published(SUBWORDS, "one_rule")}."""  # noqa: E501


def compared_with_published(model: str, row: str) -> str:
    """Say where a row of a model stands next to the published model of 1,024 units."""
    parts = []
    for name in ("sst", "imdb"):
        ours, theirs = measured_row(model, name, row), published(name, row)
        word = against_published(model, name, row).word
        parts.append(
            f"{word} on {SETS[name].title} ({percent(ours['test_accuracy'])} %, "
            f"published {percent(theirs)})"
        )
    return " and ".join(parts)


def measured_row(model: str, name: str, row: str) -> dict[str, Any]:
    """Return a row of a model; `one_rule` is the unit that is best on SST's train split."""
    rule = row == "one_rule"
    found: dict[str, Any] = (
        by_one_rule(model)["sets"][name] if rule else reproduced(model, name)[row]
    )
    return found


def published(name: str, row: str) -> float:
    """Return the published value of 1,024 units."""
    wanted = "one_unit" if row == "one_rule" else row
    (value,) = (
        each.value
        for each in SETS[name].published
        if (each.source, each.units, each.row) == ("puri", 1024, wanted)
    )
    return value


def against_published(model: str, name: str, row: str) -> Difference:
    """Return how far a row of a model is ahead of the published value of 1,024 units."""
    ours = measured_row(model, name, row)
    return compare_with_published(
        ours["test_accuracy"], ours["test_interval"], published(name, row)
    )


def emotions_lead() -> Difference:
    """Return how far the features are ahead of the published model that was fine-tuned."""
    ours = reproduced(BYTES, "semeval")["all_units"]["plutchik_f1"]
    return compare_with_published(ours["value"], ours["interval"], FINE_TUNED)


def by_words(model: str) -> str:
    """Say on which sets a model is ahead of the strongest word baseline, level or behind."""
    found = against_words(model)
    return "; ".join(f"{word} on {', '.join(found[word])}" for word in WORDS if found[word])


def sentences() -> str:
    """Say how far the model of subword tokens is ahead of the one of bytes."""
    gains = {
        name: of_all(SUBWORDS, name)["test_accuracy"] - of_all(BYTES, name)["test_accuracy"]
        for name in ("sst", "mr", "subj", "cr", "mpqa", "imdb")
    }
    imdb, mpqa = percent(gains.pop("imdb")), percent(gains.pop("mpqa"))
    return f"""\
All units of this model are {percent(min(gains.values()))} to {percent(max(gains.values()))} points better than those of `amazon_1024` on SST, MR, SUBJ and CR, and {mpqa} on MPQA (no paired test).
On IMDB's long texts they are {imdb} points better, and ahead of the published model of this size. IMDB's training
texts, without labels, are in its training text. The [first training's weights](../archive.md), on Amazon reviews only, were seven points better. We guess that the
last state keeps more of a text when fewer steps lie between its beginning and its end."""  # noqa: E501


def reproduced(model: str, name: str) -> dict[str, Any]:
    """Return the result of a model on a set."""
    result: dict[str, Any] = read_result("reproduction", f"{model}/{name}")
    return result


def of_all(model: str, name: str) -> dict[str, Any]:
    """Return the row of all units of a model on a set."""
    row: dict[str, Any] = reproduced(model, name)["all_units"]
    return row


def all_units(model: str, name: str) -> str:
    """Return the accuracy of all units of a model on a set, in per cent."""
    return percent(of_all(model, name)["test_accuracy"])


def by_one_rule(model: str) -> dict[str, Any]:
    """Return the unit that is best on SST's train split, with its accuracies."""
    rule: dict[str, Any] = reproduced(model, "one_rule")["rules"]["best_on_train"]
    return rule


def one_unit(model: str, name: str) -> str:
    """Return the accuracy of that unit on a set, in per cent."""
    return percent(by_one_rule(model)["sets"][name]["test_accuracy"])
