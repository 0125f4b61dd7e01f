"""Make the tables of the board, and the words that README, docs and experiments take from it."""

from typing import Any

from experiments.intervals import Difference, Measured, compare, unpacked_answers
from experiments.results import NotMeasured, find_result, read_result
from experiments.tables import markdown, origins, percent

from .methods import METHODS
from .sets import DISTANCES, TEST_SETS

OURS, UNIT, BAG = "default", "unit", "bag_all"
NEXT_TO = {"ahead": "ahead of", "level": "level with", "behind": "behind"}
OTHERS = {
    BAG: "a bag of words fitted to public texts of films and products",
    "bag_films": "a bag of words fitted to texts of films alone",
    "minilm": "MiniLM fitted to {fitted_to:,} of these public texts",
    "vader": "VADER",
}


def measured() -> dict[str, dict[str, Any]]:
    """Return the results of all methods that have one."""
    found = {name: find_result("board", name) for name in METHODS}
    return {name: result for name, result in found.items() if result is not None}


def row_of(method: str, name: str) -> dict[str, Any]:
    """Return the measures of a method on a set; NotMeasured if there are none."""
    rows: dict[str, dict[str, Any]] = read_result("board", method)["sets"]
    if name not in rows:
        raise NotMeasured(f"{method} was not measured on {name}")
    return rows[name]


def difference(first: str, second: str, name: str) -> Difference:
    """Return how far a method is ahead of another one on a set."""
    rows = [row_of(method, name) for method in (first, second)]
    if rows[0]["digest"] != rows[1]["digest"]:
        raise NotMeasured(f"{first} and {second} were measured on other texts of {name}")
    return compare(
        *(Measured(unpacked_answers(row["right"], row["texts"]), row["draws"]) for row in rows)
    )


def word(first: str, second: str, name: str) -> str:
    """Return ahead, level or behind."""
    return difference(first, second, name).word


def cell(method: str, name: str) -> str:
    """Return the accuracy of a method on a set, in per cent with its interval."""
    row = row_of(method, name)
    return percent(row["accuracy"], row["accuracy_interval"])


def value(method: str, name: str) -> str:
    """Return the accuracy of a method on a set, in per cent."""
    return percent(row_of(method, name)["accuracy"])


def sets() -> str:
    """Return the test sets with their numbers of texts."""
    rows = []
    for name, test_set in TEST_SETS.items():
        row = row_of(UNIT, name)
        share = percent(row["calibration"]["positives"])
        rows.append([test_set.title, test_set.distance, f"{row['texts']:,}", share])
    lines = [f"- **{distance}**: {text}." for distance, text in DISTANCES.items()]
    table = markdown(["set", "distance", "texts with a side", "positive, %"], rows, "llrr")
    return "\n".join([table, "", *lines])


def accuracies() -> str:
    """Return the accuracy of each method on each set, and three answers on everyday remarks."""
    results = measured()
    rows = []
    for name, result in results.items():
        cells = [cell(name, key) if key in result["sets"] else "-" for key in TEST_SETS]
        three = result["sets"].get("remarks", {}).get("three")
        cells.append(percent(three["accuracy"], three["accuracy_interval"]) if three else "-")
        rows.append([METHODS[name][0], *cells])
    head = [f"{s.title} ({s.distance})" for s in TEST_SETS.values()]
    table = markdown(["per cent", *head, "everyday remarks, three answers"], rows)
    return f"{table}\n\n{origins(results)}"


def differences(first: str) -> str:
    """Return how far a method is ahead of each other one, in points, with the word."""
    rows = []
    for name in measured():
        if name != first:
            rows.append([METHODS[name][0], *(lead(first, name, key) for key in TEST_SETS)])
    return markdown([f"{METHODS[first][0]} and", *(s.title for s in TEST_SETS.values())], rows)


def lead(first: str, second: str, name: str) -> str:
    """Return a difference in points with its interval, and the word."""
    try:
        apart = difference(first, second, name)
    except NotMeasured:
        return "-"
    return f"{apart.word} {percent(apart.value, apart.interval)}"


def spreads() -> str:
    """Return how much the draws of labels change the accuracy of what was fitted here."""
    rows = []
    for name, result in measured().items():
        drawn = [result["sets"].get(key, {}).get("draws") for key in TEST_SETS]
        if any(drawn):
            spans = [f"{percent(min(d))} to {percent(max(d))}" if d else "-" for d in drawn]
            rows.append([METHODS[name][0], *spans])
    return markdown(["lowest to highest draw", *(s.title for s in TEST_SETS.values())], rows)


def calibrations() -> str:
    """Return the error of P(positive), what perfect calibration would give, and both means."""
    rows = []
    for name, result in measured().items():
        cells = []
        for key in TEST_SETS:
            row = result["sets"].get(key, {}).get("calibration")
            cells.append(f"{row['error']:.3f} ({row['null']:.3f})" if row else "-")
        rows.append([METHODS[name][0], *cells])
    return markdown(["error of P(positive)", *(s.title for s in TEST_SETS.values())], rows)


def means() -> str:
    """Return how far the mean of P(positive) is above the fraction of positive texts."""
    rows = []
    for name, result in measured().items():
        shifts = [result["sets"].get(key, {}).get("calibration") for key in TEST_SETS]
        cells = [f"{row['mean'] - row['positives']:+.3f}" if row else "-" for row in shifts]
        rows.append([METHODS[name][0], *cells])
    return markdown(["mean P(positive) too high by", *(s.title for s in TEST_SETS.values())], rows)


def kinds() -> str:
    """Return how many of the everyday remarks with a side are right, by kind."""
    results = {n: r for n, r in measured().items() if "remarks" in r["sets"]}
    names = row_of(UNIT, "remarks")["kinds"]
    rows = [
        [
            f"{kind} ({count})",
            *(str(r["sets"]["remarks"]["kinds"][kind][0]) for r in results.values()),
        ]
        for kind, (_, count) in names.items()
    ]
    return markdown(["kind (remarks)", *(METHODS[name][0] for name in results)], rows)


def answer() -> str:
    """Say where the default and the unit stand."""
    default, unit = (
        [
            f"- Next to {title.format(**read_result('board', other)['config'])}: "
            f"{tally(first, other)}."
            for other, title in OTHERS.items()
            if has(other)
        ]
        for first in (OURS, UNIT)
    )
    lines = ["**Answer.** `default`:", "", *default]
    lines += ["", "One unit alone, which has no label but those of film sentences:", "", *unit]
    return "\n".join(lines)


def has(method: str) -> bool:
    """Return whether a method was measured."""
    return find_result("board", method) is not None


def tally(first: str, second: str) -> str:
    """Say on which sets a method is ahead of another one, level or behind."""
    found: dict[str, list[str]] = {each: [] for each in NEXT_TO}
    for key, test_set in TEST_SETS.items():
        found[word(first, second, key)].append(test_set.title)
    return "; ".join(f"{each} on {', '.join(names)}" for each, names in found.items() if names)


def limits() -> str:
    """Say on the first page when not to use the default."""
    right, of_all = row_of(OURS, "remarks")["kinds"]["sarcasm"]
    return f"""\
{against_bag("remarks", "On everyday remarks")} On SemEval-2018's tweets ({value(OURS, "tweets")} %) it is {NEXT_TO[word(OURS, "vader", "tweets")]} VADER
({value("vader", "tweets")} %), a free word list. It takes much sarcasm for praise: it misses {of_all - right} of {of_all} such remarks. It knows English only.
[All methods on all sets](experiments/board/README.md)."""  # noqa: E501


def against_bag(name: str, where: str) -> str:
    """Say how the default compares with the bag of public texts on a set, if that was measured."""
    ours = f"{where}, `default` has {value(OURS, name)} %"
    if not has(BAG):
        return f"{ours}."
    fitted = read_result("board", BAG)["config"]["fitted_to"]
    return (
        f"{ours} and is {NEXT_TO[word(OURS, BAG, name)]} a plain word-count classifier "
        f"fitted to {fitted:,} public texts of films and products ({value(BAG, name)} %)."
    )


def chance(name: str) -> str:
    """Say whether the unit is better than chance on a set of as many texts of each side."""
    low, _ = row_of(UNIT, name)["accuracy_interval"]
    return "better than chance" if low > 0.5 else "no better than chance"


def calibrated() -> str:
    """Say which probability is calibrated, and where."""
    rows = {key: row_of(OURS, key)["calibration"] for key in TEST_SETS}
    good, bad = (
        [
            f"{TEST_SETS[key].title} {row['error']:.3f} ({row['null']:.3f})"
            for key, row in rows.items()
            if (row["error"] <= row["null"]) == within
        ]
        for within in (True, False)
    )
    return f"""\
The error of P(positive) of `default` is within what perfect calibration would give (in brackets) on {", ".join(good) or "no set"};
it is larger on {", ".join(bad) or "no set"}."""  # noqa: E501
