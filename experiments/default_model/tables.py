"""Make the tables of README.md and of the model's card."""

import json
from pathlib import Path
from typing import Any

from experiments.default_model.methods import folder_megabytes
from experiments.default_model.sentences.everyday import APART, everyday_sentences
from experiments.default_model.study import answers_of
from experiments.models.tables import bits, sst, task
from experiments.models.tables import titled as with_alias
from experiments.tables import kept, markdown, origins, percent, read_result
from model.files.shipped import ALIASES, SHIPPED_MODELS
from transfer.intervals import paired_difference, separate_difference
from transfer.regression import accuracy_interval

HERE = Path(__file__).resolve().parent
NAMES = {
    "stars_1024": "`stars_1024` (`default`)",
    "stars_512": "`stars_512` (`default_small`)",
    "sentiment_1024": "`sentiment_1024` (earlier default, no longer shipped)",
    "tfidf": "TF-IDF, same kinds of training texts",
    "vader": "VADER",
    "textblob": "TextBlob",
}
HALVES = {
    "stars_1024": "both",
    "states": "the head on the model's states",
    "ngrams": "the bag of n-grams",
}
SETS = {"sst": "SST", "imdb": "IMDB", "semeval": "SemEval's tweets"}
FORMER = "the former `stars_1024`"
SECONDS = "CPU seconds per 1,000 sentences of SST"
READ_BEFORE = (
    "IMDB's are drawn from its test set. The everyday sentences were read while `default` was "
    "made: its accuracy on them may be a little too high."
)
SHOWN = 40  # failures that the page lists; the file has all


def results(*more: str) -> dict[str, dict[str, Any]]:
    """Read the results by method, in the order of the table; `more` names others to add."""
    return {name: found for name in (*NAMES, *more) if (found := kept("default_model", name))}


def titled(method: str) -> str:
    """Return the words for a method in a table."""
    return {**NAMES, "former": FORMER}[method]


def comparison() -> str:
    """Return accuracies, seconds and megabytes of every method."""
    measured = results()
    rows = [
        [
            NAMES[name],
            *(accuracy(name, part) for part in SETS),
            percent(r["everyday"]["accuracy"], r["everyday"]["accuracy_interval"]),
            percent(r["everyday"]["sided_accuracy"]),
            f"{r['processor_seconds_per_thousand']:.1f}",
            f"{r['megabytes']:.1f}",
        ]
        for name, r in measured.items()
    ]
    heads = [*SETS.values(), "everyday sentences", "the same without neutral ones", SECONDS, "MB"]
    counts = next(iter(measured.values()))["sets"]
    texts = ", ".join(f"{title} {counts[name]['texts']:,}" for name, title in SETS.items())
    files = {f"{name}.json": result for name, result in measured.items()}
    told = f"Texts: {texts}. {READ_BEFORE} {origins(files)}"
    return f"{markdown(['per cent', *heads], rows)}\n\n{told}"


def halves() -> str:
    """Return the accuracies of the default model, and of each half of it alone."""
    rows = []
    for name, words in HALVES.items():
        sided = read_result("default_model", name)["everyday"]["sided_accuracy"]
        rows.append([words, *(accuracy(name, part) for part in SETS), percent(sided)])
    return markdown(["per cent", *SETS.values(), "everyday sentences with a side"], rows)


def differences(method: str) -> str:
    """Return how much more often a method is right than each other one, with intervals."""
    first, rows = read_result("default_model", method), []
    for name in ["former", *(n for n in {**NAMES, **HALVES} if n != method)]:
        told = f"{HALVES[name]} alone" if name in HALVES else titled(name)
        other = read_result("default_model", name)
        rows.append([told, *(ahead(first, other, p) for p in SETS), ahead_sided(first, other)])
    head = [f"`{method}`, points above", *SETS.values(), "everyday sentences with a side"]
    return markdown(head, rows)


def ahead(first: dict[str, Any], other: dict[str, Any], name: str) -> str:
    """Return a difference of accuracies on a test set, whose texts both methods answered."""
    found = paired_difference(*(answers_of(result["sets"][name]) for result in (first, other)))
    return percent(found["lost"], found["lost_interval"])


def ahead_sided(first: dict[str, Any], other: dict[str, Any]) -> str:
    """Return a difference on everyday sentences, of which no answers for each are kept."""
    sided = (result["everyday"]["sided_accuracy"] for result in (first, other))
    count = sided_sentences()
    found = separate_difference(*((part, accuracy_interval(part, count)) for part in sided))
    return percent(found["difference"], found["difference_interval"])


def sided_sentences() -> int:
    """Return how many of the everyday sentences that count are positive or negative."""
    labels = [s.label for s in everyday_sentences() if s.kind not in APART]
    return sum(label in ("positive", "negative") for label in labels)


def accuracy(method: str, name: str) -> str:
    """Return the accuracy of a method on a test set, with its interval."""
    found = read_result("default_model", method)["sets"][name]
    return percent(found["accuracy"], found["accuracy_interval"])


def front_matter(method: str) -> str:
    """Return the model-index of a card in JSON, which is valid YAML."""
    measured = read_result("default_model", method)["sets"]
    found = [
        task(
            "text-classification",
            f"{SETS[name]}, {measured[name]['texts']:,} texts of the test set",
            name,
            [{"type": "accuracy", "value": round(measured[name]["accuracy"], 4)}],
        )
        for name in ("sst", "imdb")
    ]
    return f"model-index: {json.dumps([{'name': method, 'results': found}])}"


def calibration(*more: str) -> str:
    """Return calibration errors, and the accuracy on texts of which a method is sure."""
    rows = []
    for name, result in results(*more).items():
        cells = [f"{result['sets'][s]['calibration_error']:.3f}" for s in SETS]
        sure = [result["sets"][s] for s in ("sst", "imdb")]
        cells += [
            f"{percent(s['unsure'])}, {percent(s['accuracy_where_sure'])}" if "unsure" in s else ""
            for s in sure
        ]
        rows.append([titled(name), *cells])
    heads = [f"calibration error, {title}" for title in SETS.values()]
    heads += [f"{name}: per cent unsure, per cent of the others right" for name in ("SST", "IMDB")]
    return markdown(["", *heads], rows)


def kinds(*more: str) -> str:
    """Return the accuracy on everyday sentences by kind."""
    measured = results(*more)
    first = next(iter(measured.values()))["everyday"]["kinds"]
    rows = [
        [
            f"{kind} ({row['texts']})",
            *(percent(r["everyday"]["kinds"][kind]["accuracy"]) for r in measured.values()),
        ]
        for kind, row in first.items()
    ]
    return markdown(["kind (sentences)", *(titled(name) for name in measured)], rows)


def weaknesses(method: str) -> str:
    """Say how often a method is right on the kinds of everyday sentences that fool it most."""
    of_kind = read_result("default_model", method)["everyday"]["kinds"]
    sarcasm, negation = (percent(of_kind[kind]["accuracy"]) for kind in ("sarcasm", "negation"))
    return (
        f"On the everyday sentences, `{method}` classifies {sarcasm} per cent of the sarcastic "
        f"ones correctly, and {negation} per cent of the negated ones."
    )


def failures(method: str) -> str:
    """Return the everyday sentences that a method gets wrong, with its probability."""
    found = read_result("default_model", method)["everyday"]["failures"]
    rows = [
        [row["kind"], row["label"], row["text"].replace("|", "\\|"), f"{row['positive']:.3f}"]
        for row in found[:SHOWN]
    ]
    told = markdown(["kind", "label", "text", "positive"], rows)
    if len(found) <= SHOWN:
        return told
    file = f"experiments/default_model/results/{method}.json"
    return f"{told}\n\nAnd {len(found) - SHOWN} more, in `{file}`."


def texts(selection: str = "texts") -> str:
    """Return the numbers of texts of each source in train and in val."""
    report = read_result("default_model", selection)
    rows = [
        [
            source,
            f"{row['texts']:,}",
            f"{row['characters']:,}",
            f"{report['val'][source]['texts']:,}" if source in report["val"] else "",
        ]
        for source, row in report["train"].items()
    ]
    return markdown(["source", "texts", "characters", "texts in val"], rows)


def models(*names: str) -> str:
    """Return the shipped models with their size, accuracy on SST and bits per character."""
    rows = [
        [
            f"[{with_alias(name)}](model/pretrained/{name}/README.md)",
            f"{folder_megabytes(SHIPPED_MODELS / name):.1f} MB",
            accuracy(name, "sst") if name in ALIASES.values() else sst(name, "all_units"),
            bits(name),
        ]
        for name in names
    ]
    return markdown(["model", "size", "SST test, per cent", "bits per character"], rows)
