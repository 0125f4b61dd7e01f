"""One unit's study as a page with figures, drawn from neuron.json alone."""

import base64
import html
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from data_utils.pictures import drawing
from model.errors import is_whole
from model.files.storage import write_atomically
from model.pages.page import as_utf8, fill, page_style, shade, table
from model.text.glyphs import visible

from ..plots import as_svg, cell_name, draw_histogram, save_png, state_name
from .plots import CURVES, SIZE, draw_by_labels, draw_by_units, draw_ranking

TEMPLATE = Path(__file__).with_name("neuron.html")
TEXT_KINDS = {
    "highest": "Highest",
    "lowest": "Lowest",
    "positive_though_negative": "It says {1}, the label is {0}",
    "negative_though_positive": "It says {0}, the label is {1}",
}
CHOSEN = {"weight": "the one of largest weight in the L1 regression", "name": "one asked for"}
MOMENT_KINDS = {"rises": "Largest rises", "falls": "Largest falls"}

Results = dict[str, Any]


def write_report(
    results: Results, folder: Path, drawn: Mapping[str, Callable[[Results], Figure]] | None = None
) -> Path:
    """Write neuron.html and figures/*.png; return the page's path. drawn: DRAWN unless given."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    pictures = {}
    for name, draw in (DRAWN if drawn is None else drawn).items():
        with drawing(file := folder / "figures" / f"{name}.png"):
            figure = draw(results)
            pictures[name] = as_svg(figure)
            save_png(figure, file)
    page = as_utf8(as_html(results, pictures))
    path = folder / "neuron.html"
    write_atomically(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))
    return path


def as_html(results: Results, pictures: Mapping[str, str]) -> str:
    """Return a page that needs no script, no network and no other file.

    pictures: SVG by name; the page names those that could not be drawn.
    """
    limit = results["extremes"]["limit"]
    content = {
        "style": page_style(),
        "unit": str(results["neuron"]["index"]),
        "about": _about(results),
        "accuracies": table(
            ["", "test accuracy", "95 % interval"],
            ([html.escape(name), *_accuracy(row)] for name, row in accuracies_of(results)),
        ),
        "verdict": _lost(results),
        "ranks": _ranks(results),
        "units": _units(results),
        "without": _without(results),
        "draws": _draws(results),
        "labels": _labels(results["by_labels"]),
        "limit": f"{limit:.3g}",
        "texts": _texts(results, limit),
        "searched": _searched(results["extremes"]["searched"]),
        "moments": _pieces(MOMENT_KINDS, results["extremes"]["moments"], "change", limit),
        "words": _words(results["extremes"]["words"]),
        "origin": _origin(results),
    }
    content |= {name: _image(pictures.get(name), about) for name, about in ALTERNATIVES.items()}
    return fill(TEMPLATE.read_text(encoding="utf-8"), content)


DRAWN: dict[str, Callable[[Results], Figure]] = {
    "histogram": lambda found: draw_histogram(
        found["histogram"], found["neuron"]["index"], SIZE, cell=_cell(found)
    ),
    "ranking": lambda found: draw_ranking(found["ranking"], found["neuron"]["index"]),
    "by_units": lambda found: draw_by_units(found["by_units"], found["baselines"]),
    "by_labels": lambda found: draw_by_labels(
        found["by_labels"], found["baselines"], finetuned=_finetuned(found)
    ),
}
ALTERNATIVES = {
    "histogram": "Histogram of the unit's value after the texts of the test set, by label",
    "ranking": "Every unit's train accuracy by itself over its weight in the regression",
    "by_units": "Test accuracy by the number of units kept; the numbers are in neuron.json",
    "by_labels": "Test accuracy by the number of labels; the numbers are in the table below",
}


def accuracies_of(results: Results) -> list[tuple[str, dict[str, Any]]]:
    """Return the first table of the page: rows of a name and a test accuracy with its interval."""
    unit, baselines = results["neuron"]["index"], results["baselines"]
    draws = len(baselines["untrained"]["accuracies"])
    return [
        (f"all {results['all_units']['units']} units", results["all_units"]),
        (f"unit {unit} alone, regression", results["alone"]),
        (f"unit {unit} alone, one cut", results["neuron"]),
        (f"all units but {unit}", results["without"]["refitted"]),
        ("TF-IDF, words and pairs", baselines["tfidf"]),
        (f"untrained {cell_name(_cell(results))}, mean of {draws}", baselines["untrained"]),
        ("majority class", baselines["majority"]),
    ]


def _about(results: Results) -> str:
    model, sizes = results["model"], results["examples"]
    characters = model["provenance"].get("characters")
    trained = f", {characters:,} characters read in training" if is_whole(characters) else ""
    counts = ", ".join(f"{count:,} {name}" for name, count in sizes.items())
    negative, positive = map(html.escape, results["classes"])
    neuron = results["neuron"]
    side = "High" if neuron["polarity"] > 0 else "Low"
    against = ""
    if neuron["polarity"] * neuron["weight"] < 0:
        against = (
            f" That is by itself: beside the other units, which say the same, its weight is "
            f"{neuron['weight']:+.3f}."
        )
    return (
        f"{state_name(_cell(results)).capitalize()} of a model of "
        f"{model['architecture']['hidden_size']:,} units{trained}, after the text. {counts} texts; "
        f"label {positive} is the positive one, {negative} the negative. "
        f"The unit is {CHOSEN[neuron['chosen']]}. {side} values speak for label {positive}."
        f"{against}"
    )


def _cell(results: Results) -> str:
    """Return the name of the model's cell in its configuration."""
    return str(results["model"]["architecture"].get("cell", "mlstm"))


def _lost(results: Results) -> str:
    refitted, clamped = (results["without"][name] for name in ("refitted", "held"))
    return (
        f"Without the unit, refitted, the accuracy falls by {_points(refitted)}; clamped to its "
        f"mean in every text, nothing refitted, by {_points(clamped)}."
    )


def _points(row: dict[str, Any]) -> str:
    low, high = (100 * value for value in row["lost_interval"])
    return f"{100 * row['lost']:.1f} points ({low:.1f} to {high:.1f})"


def _ranks(results: Results) -> str:
    neuron, count = results["neuron"], results["all_units"]["units"]
    rank, best = neuron["rank"], results["ranking"]["units"][0]["unit"]
    return (
        f"Of {count:,} units it is number {rank['weight']:,} by weight, {rank['accuracy']:,} by "
        f"accuracy alone and {rank['area']:,} by area. Best alone is unit {best}."
    )


def _units(results: Results) -> str:
    rows = []
    for row in results["ranking"]["units"]:
        low, high = row["test_area_interval"]
        rows.append([
            f"{row['unit']} ({'+' if row['polarity'] > 0 else '&minus;'})",
            f"{row['train_accuracy']:.3f}", f"{row['val_accuracy']:.3f}", *_accuracy(row, 3),
            f"{row['test_area']:.3f}", f"{low:.3f} to {high:.3f}", f"{row['weight']:+.3f}",
            "{weight} / {accuracy} / {area}".format(**row["rank"]),
        ])  # fmt: skip
    names = ["unit", "train", "val", "test", "95 % interval", "test area", "95 % interval",
             "weight", "rank by weight / accuracy / area"]  # fmt: skip
    chosen = f"<tr><td>{results['neuron']['index']} ("
    return table(names, rows).replace(chosen, f'<tr class="chosen">{chosen[4:]}')


def _without(results: Results) -> str:
    unit = results["neuron"]["index"]
    rows: list[list[str]] = []
    for name, label in (("refitted", "refitted on the others"), ("held", "clamped to its mean")):
        row = results["without"][name]
        low, high = row["lost_interval"]
        lost = [f"{row['lost']:+.4f}", f"{low:+.4f} to {high:+.4f}"]
        rows.append([f"unit {unit}: {label}", *_accuracy(row), *lost])
    return table(["removed", "test accuracy", "95 % interval", "lost", "95 % interval"], rows)


def _draws(results: Results) -> str:
    draws, val = results["by_labels"]["draws"], results["examples"]["val"]
    text = (
        f"Means over {draws} random draws of the training texts, both classes in proportion; one "
        "draw if all texts are used. Shaded, and beside the means: 95 % prediction intervals for a "
        "further draw on other test texts, draws taken as normally distributed. C is chosen "
        f"on all of val, whose {val:,} labels are used in addition and not counted. The unit known "
        "beforehand was chosen on all of train, and a regression on it alone is fitted to these "
        "labels: its weight and its cut. With few labels the penalty often makes that weight zero, "
        "and then the curve says nothing of the unit."
    )
    return f"{text} {FINETUNED}" if _finetuned(results) else text


FINETUNED = (
    "The model was fine-tuned on labels before: its features have seen those; if they include "
    "train's, they are the very ones that are counted here. So this does not show how few "
    "labels a model without fine-tuning needs."
)


def _finetuned(results: Results) -> bool:
    """Return whether the model's provenance names one that it was fine-tuned from."""
    return "finetuned_from" in results["model"]["provenance"]


def _labels(by_labels: dict[str, Any]) -> str:
    rows = []
    for place, count in enumerate(by_labels["counts"]):
        cells = [by_labels["curves"][name][place] for name in CURVES]
        rows.append([f"{count:,}", *(cell for point in cells for cell in _point(point))])
    names = [cell for label, _ in CURVES.values() for cell in (label, "95 % interval")]
    return table(["labels", *names], rows)


def _point(point: dict[str, Any]) -> list[str]:
    low, high = point["draw_interval"]
    return [f"{point['test_accuracy']:.3f}", f"{low:.3f} to {high:.3f}"]


def _texts(results: Results, limit: float) -> str:
    titles = {
        kind: html.escape(title.format(*results["classes"])) for kind, title in TEXT_KINDS.items()
    }
    return _pieces(titles, results["extremes"]["texts"], "value", limit)


def _pieces(titles: dict[str, str], found: Results, measure: str, limit: float) -> str:
    """Return the texts or moments of each kind under a title, each with its measure."""
    parts = []
    for kind, title in titles.items():
        parts.append(f"<h3>{title}</h3>" if found[kind] else f"<h3>{title}: none</h3>")
        for piece in found[kind]:
            about = f"{piece[measure]:+.3f}, label {piece['label']}, row {piece['row']}"
            parts.append(_piece(about, piece, limit))
    return "\n".join(parts)


def _piece(about: str, piece: dict[str, Any], limit: float) -> str:
    """Return characters coloured by value, below a line about them; a word may be underlined."""
    spans = [
        f"<span {shade(value, limit)}>{html.escape(character)}</span>"
        for character, value in zip(visible(piece["text"]), piece["values"], strict=True)
    ]
    start, stop = piece.get("mark", (0, 0))
    marked = "".join(spans[start:stop])
    middle = f"<mark>{marked}</mark>" if marked else ""
    before, after = ("&hellip;" if piece[key] else "" for key in ("cut_before", "cut_after"))
    body = before + "".join(spans[:start]) + middle + "".join(spans[stop:]) + after
    return f'<p class="value">{html.escape(about)}</p>\n<div class="text" dir="auto">{body}</div>'


def _searched(searched: dict[str, int]) -> str:
    return (
        f"Searched: {searched['texts']:,} of {searched['of_texts']:,} texts of the test set, "
        f"{searched['characters']:,} characters. A word's change is the unit's value when it and "
        "the white space after it have been read, less the value before it; one moment a text."
    )


def _words(words: dict[str, Any]) -> str:
    tables = []
    for name, title in (("raise", "raises it"), ("lower", "lowers it")):
        rows = [
            [html.escape(visible(row["word"])), f"{row['mean_change']:+.4f}",
             f"{row['standard_error']:.4f}", str(row["count"])]
            for row in words[name]
        ]  # fmt: skip
        tables.append(table([title, "mean change", "standard error", "times"], rows))
    return f'<div class="columns">{"".join(tables)}</div>'


def _accuracy(row: dict[str, Any], digits: int = 4) -> list[str]:
    low, high = row["test_interval"]
    return [f"{row['test_accuracy']:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}"]


def _image(picture: str | None, alternative: str) -> str:
    if picture is None:
        return f"<p>{html.escape(alternative)}: could not be drawn.</p>"
    svg = base64.b64encode(picture.encode()).decode()
    return f'<img alt="{html.escape(alternative)}" src="data:image/svg+xml;base64,{svg}">'


def _origin(results: Results) -> str:
    origin = results["origin"]
    return html.escape(
        f"Made on {origin['date']} at revision {origin['git_revision']}, seed {results['seed']}: "
        f"{origin['command']}"
    )
