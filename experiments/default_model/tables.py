"""Make the tables of README.md and of the model's card."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments.default_model.methods import folder_megabytes
from experiments.default_model.remarks import CLASSES
from experiments.default_model.sentences.everyday import APART, everyday_sentences
from experiments.default_model.study import answers_of, drawn_films
from experiments.models.tables import bits, sst, task
from experiments.models.tables import titled as with_alias
from experiments.tables import kept, markdown, origins, percent, read_result
from model.classifiers.head_files import CONFIG_FILE, FOLDER
from model.files.shipped import ALIASES, SHIPPED_MODELS
from transfer.intervals import paired_difference, unpacked_answers
from transfer.regression import accuracy_interval

HERE = Path(__file__).resolve().parent
NAMES = {
    "stars_1024": "`stars_1024` (`default`)",
    "stars_512": "`stars_512` (`default_small`)",
    "nb": "NB-weighted n-grams, general",
    "words_and_characters": "TF-IDF of words and characters, general",
    "minilm": "MiniLM and logistic regression, general",
    "vader": "VADER",
    "textblob": "TextBlob",
}
IN_DOMAIN = {
    "nb": "NB-weighted n-grams, fitted to the set's own train split",
    "words_and_characters": "TF-IDF of words and characters, fitted to the set's own train split",
}
HALVES = {
    "stars_1024": "both",
    "states": "the head on the model's states",
    "ngrams": "the n-gram model",
}
SETS = {"sst": "SST", "imdb": "IMDB", "cr": "CR", "semeval": "SemEval's tweets"}
FORMER = "the former `stars_1024`, of bytes"
SECONDS = "CPU seconds per 1,000 sentences of SST"
REMARK_HEADS = (
    "everyday remarks with a side",
    "everyday remarks, three classes",
    "everyday remarks, three classes, macro-F1",
)
ABOUT = (
    "IMDB's are drawn from its test set. General: fitted to the texts of `default`, which include "
    "SST's and IMDB's train splits. Intervals of 95 % cover the choice of the test texts alone. "
    "Each text must get a side: a score of zero from VADER or TextBlob counts as negative. For "
    "three classes, each method's neutral band was fitted to our own everyday sentences by the "
    "same rule. Another author wrote the everyday remarks."
)
SHOWN = 40  # failures that the page lists; the file has all


def results(*more: str) -> dict[str, dict[str, Any]]:
    """Read the results by method, in the order of the table; `more` names others to add."""
    return {name: result for name in (*NAMES, *more) if (result := kept("default_model", name))}


def titled(method: str) -> str:
    """Return the words for a method in a table."""
    return {**NAMES, "bytes": FORMER}[method]


def comparison() -> str:
    """Return accuracies, seconds and megabytes of every method."""
    measured = results("bytes")
    rows = [
        [
            titled(name),
            *(accuracy(name, part) for part in SETS),
            *on_remarks(r["remarks"]["test"]),
            f"{r['processor_seconds_per_thousand']:.1f}",
            f"{r['megabytes']:.1f}",
        ]
        for name, r in measured.items()
    ]
    for name, title in IN_DOMAIN.items():
        cells = [accuracy_of(in_domain_answers(name, part)) for part in ("sst", "imdb")]
        rows.append([title, *cells, *["-"] * 7])
    heads = [*SETS.values(), *REMARK_HEADS, SECONDS, "MB"]
    counts = next(iter(measured.values()))["sets"]
    texts = ", ".join(f"{title} {counts[name]['texts']:,}" for name, title in SETS.items())
    files = {f"{name}.json": result for name, result in measured.items()}
    files |= {f"remarks of {name}": result["remarks"] for name, result in measured.items()}
    return (
        f"{markdown(['per cent', *heads], rows)}\n\nTexts: {texts}, everyday remarks 200. {ABOUT} "
        f"{origins(files)}"
    )


def on_remarks(result: dict[str, Any]) -> list[str]:
    """Return the accuracies on everyday remarks: with a side, of three classes, and macro-F1."""
    return [
        percent(result["sided_accuracy"], result["sided_interval"]),
        with_interval(result),
        percent(result["macro_f1"], result["macro_f1_interval"]),
    ]


def in_domain_answers(name: str, part: str) -> np.ndarray | None:
    """Return which test texts a baseline fitted to the set's own train split has right, bool [N].

    Of IMDB's they are the reviews on which all methods were tested. None: not measured.
    """
    result = read_result("reproduction", f"tfidf/{part}")
    if name not in result:
        return None
    right = unpacked_answers(result[name]["right"], result["examples"]["test"])
    return right[drawn_films(np.repeat([1, 0], len(right) // 2))] if part == "imdb" else right


def accuracy_of(right: np.ndarray | None) -> str:
    """Return the accuracy of answers, bool [N], with its interval."""
    if right is None:
        return "-"
    return percent(right.mean(), accuracy_interval(float(right.mean()), len(right)))


def halves() -> str:
    """Return the accuracies of the default model, and of each half of it alone."""
    rows = []
    for name, words in HALVES.items():
        sided = read_result("default_model", name)["everyday"]["sided_accuracy"]
        rows.append([words, *(accuracy(name, part) for part in SETS), percent(sided)])
    return markdown(
        ["per cent", *SETS.values(), "our own everyday sentences with a side (validation)"], rows
    )


def differences(method: str) -> str:
    """Return how much more often a method is right than each other one, with intervals."""
    first, rows = read_result("default_model", method), []
    for name in [n for n in results(*HALVES, "bytes") if n != method]:
        title = f"{HALVES[name]} alone" if name in HALVES else titled(name)
        other = read_result("default_model", name)
        remarks = [ahead_on_remarks(first, other, key) for key in ("sided_right", "right")]
        rows.append([title, *(ahead(first, other, part) for part in SETS), *remarks])
    for name, title in IN_DOMAIN.items():
        pairs = [
            (answers_of(first["sets"][part]), in_domain_answers(name, part))
            for part in ("sst", "imdb")
        ]
        rows.append([title, *(difference(*pair) for pair in pairs), *["-"] * 4])
    return markdown([f"`{method}`, points above", *SETS.values(), *REMARK_HEADS[:2]], rows)


def ahead(first: dict[str, Any], other: dict[str, Any], name: str) -> str:
    """Return a difference of accuracies on a test set, whose texts both methods answered."""
    return difference(*(answers_of(result["sets"][name]) for result in (first, other)))


def ahead_on_remarks(first: dict[str, Any], other: dict[str, Any], key: str) -> str:
    """Return a difference on everyday remarks: on those with a side, or of three classes."""
    if "remarks" not in other:
        return "-"
    remarks = [result["remarks"]["test"] for result in (first, other)]
    count = remarks[0]["sided" if key == "sided_right" else "texts"]
    return difference(*(unpacked_answers(row[key], count) for row in remarks))


def difference(first: np.ndarray, other: np.ndarray | None) -> str:
    """Return a difference of accuracies on the same texts; bool [N] each."""
    if other is None:
        return "-"
    change = paired_difference(first, other)
    return percent(change["lost"], change["lost_interval"])


def sided_sentences() -> int:
    """Return how many of the everyday sentences that count are positive or negative."""
    labels = [s.label for s in everyday_sentences() if s.kind not in APART]
    return sum(label in ("positive", "negative") for label in labels)


def accuracy(method: str, name: str) -> str:
    """Return the accuracy of a method on a test set, with its interval."""
    return with_interval(read_result("default_model", method)["sets"][name])


def front_matter(method: str) -> str:
    """Return the model-index of a card in JSON, which is valid YAML."""
    measured = read_result("default_model", method)["sets"]
    tasks = [
        task(
            "text-classification",
            f"{SETS[name]}, {measured[name]['texts']:,} texts of the test set",
            name,
            [{"type": "accuracy", "value": round(measured[name]["accuracy"], 4)}],
        )
        for name in ("sst", "imdb")
    ]
    return f"model-index: {json.dumps([{'name': method, 'results': tasks}])}"


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
    heads += [f"{name}: per cent unsure, accuracy on the others" for name in ("SST", "IMDB")]
    return markdown(["", *heads], rows)


def three_answers(*names: str) -> str:
    """Return the calibration of shipped models with three answers, by source of val."""
    rows, files = [], {}
    for name in names:
        path = SHIPPED_MODELS / name / FOLDER / CONFIG_FILE
        files[name] = {"origin": json.loads(path.read_text())["origin"]["neutral"]}
        for source, row in files[name]["origin"]["val"].items():
            errors = [row[key] for key in ("before", "calibration_error", *CLASSES)]
            shown = [f"{error:.3f}" for error in errors]
            rows.append([f"`{name}`", source, percent(row["accuracy"]), *shown])
    heads = ["model", "source of val", "accuracy of three, per cent", "error, two answers"]
    heads += ["error, three answers", *(f"error of {answer}" for answer in CLASSES)]
    return f"{markdown(heads, rows)}\n\n{origins(files)}"


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


def remark_kinds() -> str:
    """Return how many everyday remarks with a side each method has right, by kind."""
    measured = results()
    first = next(iter(measured.values()))["remarks"]["test"]["kinds"]
    rows = [
        [
            f"{kind} ({row['sided']})",
            *(str(r["remarks"]["test"]["kinds"][kind]["sided_right"]) for r in measured.values()),
        ]
        for kind, row in first.items()
        if row["sided"]
    ]
    return markdown(["kind (remarks with a side)", *(titled(name) for name in measured)], rows)


def bands() -> str:
    """Return each method's neutral band, with its accuracy of three classes on both sets."""
    rows = []
    for name, result in results().items():
        remarks = result["remarks"]
        answers = remarks.get("own_answers", {})
        own = remarks.get("as_shipped"), answers.get("validation"), answers.get("test")
        rows.append([
            titled(name),
            " to ".join(f"{end:.3f}" for end in remarks["band"]),
            percent(remarks["validation"]["accuracy"]),
            with_interval(remarks["test"]),
            *(with_interval(each) if each else "-" for each in own),
        ])  # fmt: skip
    heads = ["neutral band", "our own sentences (validation)", "remarks (test)"]
    heads += ["test, by its own range of unsure", "validation, by its own answers"]
    heads.append("test, by its own answers")
    return markdown(["three classes, per cent", *heads], rows)


def with_interval(result: dict[str, Any]) -> str:
    """Return an accuracy with its interval."""
    return percent(result["accuracy"], result["accuracy_interval"])


def nearness(method: str) -> str:
    """Return a method's accuracy of three classes on sentences near the grammar, and on others."""
    overlap = read_result("default_model", "nearness")
    result = read_result("default_model", method)["remarks"]
    rows = []
    for name, title in {"validation": "our own sentences", "test": "the other author's"}.items():
        near, right = (
            unpacked_answers(packed, overlap[name]["texts"])
            for packed in (overlap[name]["rows"], result[name]["right"])
        )
        rows.append([title, of_some(right[near]), of_some(right[~near])])
    heads = ["near a sentence of the grammar", "others"]
    return markdown([f"`{method}`, three classes, per cent", *heads], rows)


def of_some(right: np.ndarray) -> str:
    """Return the accuracy on some texts, bool [N], with its interval and their number."""
    return f"{accuracy_of(right)}, {len(right)} texts"


def failures(method: str) -> str:
    """Return the everyday sentences that a method gets wrong, with its probability."""
    sentences = read_result("default_model", method)["everyday"]["failures"]
    rows = [
        [row["kind"], row["label"], row["text"].replace("|", "\\|"), f"{row['positive']:.3f}"]
        for row in sentences[:SHOWN]
    ]
    table = markdown(["kind", "label", "text", "positive"], rows)
    if len(sentences) <= SHOWN:
        return table
    file = f"experiments/default_model/results/{method}.json"
    return f"{table}\n\nAnd {len(sentences) - SHOWN} more, in `{file}`."


def texts(selection: str) -> str:
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
