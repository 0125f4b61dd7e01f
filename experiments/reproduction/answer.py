"""Say what the models reach on the published sets."""

from typing import Any

from experiments.results import read_result
from experiments.tables import percent

BYTES, SUBWORDS = "amazon_1024", "amazon_subword_1024"


def answer() -> str:
    """Return the answer of README.md."""
    imdb, sst = (
        " and ".join(all_units(model, name) for model in (BYTES, SUBWORDS))
        for name in ("imdb", "sst")
    )
    theirs = {
        name: percent(reproduced(SUBWORDS, name)["one_unit"]["test_accuracy"])
        for name in ("sst", "imdb")
    }
    return f"""\
**Answer.** On IMDB, all units are ahead of the published model of 1,024 units ({imdb} % against 76.2 %). On SST, they are behind it
({sst} % against 81.8 %). On emotions, the frozen features of `amazon_1024` are level with a fine-tuned model of 4,096 units, and both
are far behind word counts. The strongest word baseline, fitted to the same labels, is clearly ahead of both models on IMDB, MR, SUBJ
and MPQA. `amazon_subword_1024` is level with it on SST and clearly ahead of it on CR; `amazon_1024` is clearly behind it on SST and
level with it on CR.

By the published rule for one unit (largest weight in the regression, refitted on each set), `amazon_subword_1024` reaches
{theirs["sst"]} % on SST, behind the published model of 1,024 units (81.2 %), and {theirs["imdb"]} % on IMDB, ahead of it (73.4 %). By the other rule
(the most accurate unit on SST's train split, applied unchanged), it reaches {one_unit(SUBWORDS, "sst")} % on SST, behind, and {one_unit(SUBWORDS, "imdb")} % on IMDB, ahead."""  # noqa: E501


def sentences() -> str:
    """Say how far the model of subword tokens is ahead of the one of bytes."""
    subj, cr = (
        percent(of_all(SUBWORDS, name)["test_accuracy"] - of_all(BYTES, name)["test_accuracy"])
        for name in ("subj", "cr")
    )
    return f"""\
All units of this model are {subj} to {cr} points ahead of those of `amazon_1024` on SST, MR, SUBJ and CR, and level on MPQA (no paired test).
On IMDB's long texts they are more than eight points ahead of `amazon_1024`, and further ahead of the published model of this size. IMDB's training
texts, without labels, are in its training text. The first training's weights, trained on Amazon reviews only, were seven points ahead. We guess that the
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
