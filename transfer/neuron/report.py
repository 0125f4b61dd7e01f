"""One unit's study as a page with figures, drawn from neuron.json alone."""

import base64
import html
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from model.errors import is_whole
from model.files.storage import write_atomically
from model.layers.cells import layer_of
from model.pages.page import as_utf8, fill, page_style, shade, table
from model.text.glyphs import visible

from ..plots import (
    CURVES,
    SMALL,
    as_svg,
    draw_by_labels,
    draw_by_units,
    draw_histogram,
    draw_ranking,
    drawing,
    save_png,
)
from ..summary import is_above, percent

TEMPLATE = Path(__file__).with_name("neuron.html")
TEXT_KINDS = {
    "highest": "Highest",
    "lowest": "Lowest",
    "positive_though_negative": "The unit says {1}, the label is {0}",
    "negative_though_positive": "The unit says {0}, the label is {1}",
}
MOMENT_KINDS = {"rises": "Largest rises", "falls": "Largest falls"}
FINETUNED = (
    "The model was fine-tuned on labels before, which are not counted here. So this does not show "
    "how few labels a model without fine-tuning needs."
)
INTERVAL = "95 % interval"

Results = dict[str, Any]


def write_report(results: Results, folder: Path) -> Path:
    """Write neuron.html and figures/*.png of what neuron.json holds; return the page's path."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    pictures = {}
    for name, draw in FIGURES.items():
        with drawing(file := folder / "figures" / f"{name}.png"):
            figure = draw(results)
            pictures[name] = as_svg(figure)
            save_png(figure, file)
    page = as_utf8(as_html(results, pictures))
    path = folder / "neuron.html"
    write_atomically(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))
    return path


FIGURES: dict[str, Callable[[Results], Figure]] = {
    "histogram": lambda results: draw_histogram(
        results["histogram"],
        results["neuron"]["index"],
        SMALL,
        cell=_cell(results),
        polarity=results["neuron"]["polarity"],
        cut=results["neuron"]["cut"],
    ),
    "ranking": lambda results: draw_ranking(results["ranking"], results["neuron"]["index"]),
    "by_units": lambda results: draw_by_units(results["by_units"], results["baselines"]),
    "by_labels": lambda results: draw_by_labels(
        results["by_labels"], results["baselines"], finetuned=_finetuned(results)
    ),
}
ALTERNATIVES = {
    "histogram": "Histogram of the unit's value after the texts of the test set, by label",
    "ranking": "Every unit's train accuracy by itself over its weight in the regression",
    "by_units": "Test accuracy by the number of units kept; the numbers are in neuron.json",
    "by_labels": "Test accuracy by the number of labels; the numbers are in the table below",
}


def as_html(results: Results, pictures: Mapping[str, str]) -> str:
    """Return a page that needs no script, no network and no other file.

    pictures: SVG by name; the page names those that could not be drawn.
    """
    extremes, by_labels, origin = results["extremes"], results["by_labels"], results["origin"]
    limit, searched = extremes["limit"], extremes["searched"]
    accuracies = ([html.escape(name), *_accuracy(row)] for name, row in accuracies_of(results))
    titles = {kind: title.format(*results["classes"]) for kind, title in TEXT_KINDS.items()}
    content = {
        "style": page_style(),
        "unit": str(results["neuron"]["index"]),
        "verdict": html.escape(verdict(results)),
        "about": _about(results),
        "accuracies": table(["", "test accuracy", INTERVAL], accuracies),
        "ranks": _ranks(results),
        "units": _units(results),
        "lost": _lost(results),
        "without": _without(results),
        "draws": str(by_labels["draws"]),
        "val": f"{results['examples']['val']:,}",
        "finetuned": FINETUNED if _finetuned(results) else "",
        "labels": _labels(by_labels),
        "limit": f"{limit:.3g}",
        "texts": _pieces(titles, extremes["texts"], "value", limit),
        "searched": f"{searched['texts']:,} of {searched['of_texts']:,} texts of the test set, "
        f"{searched['characters']:,} characters",
        "moments": _pieces(MOMENT_KINDS, extremes["moments"], "change", limit),
        "words": _words(extremes["words"]),
        "origin": html.escape(
            f"{origin['date']}, revision {origin['git_revision']}, seed {results['seed']}: "
            f"{origin['command']}"
        ),
    }
    content |= {name: _image(pictures.get(name), about) for name, about in ALTERNATIVES.items()}
    return fill(TEMPLATE.read_text(encoding="utf-8"), content)


def accuracies_of(results: Results) -> list[tuple[str, dict[str, Any]]]:
    """Return the first table of the page: rows of a name and a test accuracy with its interval."""
    unit, baselines = results["neuron"]["index"], results["baselines"]
    draws = len(baselines["untrained"]["accuracies"])
    return [
        (f"all {results['all_units']['units']:,} units", results["all_units"]),
        (f"unit {unit} alone, one threshold", results["neuron"]),
        (f"unit {unit} alone, regression", results["alone"]),
        (f"all units but {unit}", results["without"]["refitted"]),
        ("TF-IDF, words and pairs", baselines["tfidf"]),
        (f"untrained {layer_of(_cell(results)).title}, mean of {draws}", baselines["untrained"]),
        ("majority class", baselines["majority"]),
    ]


def verdict(results: Results) -> str:
    """Return what the study found, in one sentence.

    The model knows the label if its interval is above an untrained model and the majority class;
    the unit, if its interval is above the majority class. `stands_out` decides whether such a unit
    is a sentiment neuron.
    """
    neuron, whole, baselines = results["neuron"], results["all_units"], results["baselines"]
    unit, total = f"unit {neuron['index']} alone", f"all {whole['units']:,} units"
    untrained, majority = baselines["untrained"], baselines["majority"]
    if not is_above(whole, untrained, majority):
        return (
            f"This model does not know the label yet: {total} predict {percent(whole)} of the "
            f"test labels, an untrained model {percent(untrained)}, the majority class "
            f"{percent(majority)}."
        )
    if not is_above(neuron, majority):
        return (
            f"The model knows the label, but not in this unit: {total} predict "
            f"{percent(whole)} of the test labels, {unit} {percent(neuron)}."
        )
    sentence = (
        f"{unit.capitalize()} predicts {percent(neuron)} of the test labels, {total} "
        f"{percent(whole)}"
    )
    if stands_out(results):
        negative, positive = results["classes"]
        of_others = negative == f"not {positive}"
        return f"{sentence}: a {f'neuron for {positive}' if of_others else 'sentiment neuron'}."
    best = best_units(results)[0]["unit"]
    if best == neuron["index"]:
        return f"{sentence}: other units know the label nearly as well, so no sentiment neuron."
    return f"{sentence}: unit {best} separates the classes better, so no sentiment neuron."


def stands_out(results: Results) -> bool:
    """Return whether the unit is the sentiment neuron of docs/glossary.md.

    Of all units it separates the classes best on train (largest area under the ROC curve), and its
    interval on test does not overlap with that of the next best unit.
    """
    first, second = best_units(results)
    lowest, _ = _above_half(first)
    _, highest = _above_half(second)
    return bool(first["unit"] == results["neuron"]["index"] and lowest > highest)


def best_units(results: Results) -> list[dict[str, Any]]:
    """Return the two units that separate the classes best on train, the best first."""
    return sorted(results["ranking"]["units"], key=lambda row: row["rank"]["area"])[:2]


def _above_half(row: dict[str, Any]) -> tuple[float, float]:
    """Return the interval of a unit's AUC, mirrored if low values are the positive ones."""
    low, high = row["test_area_interval"]
    return (low, high) if row["train_area"] >= 0.5 else (1 - high, 1 - low)


def _about(results: Results) -> str:
    model, neuron = results["model"], results["neuron"]
    characters = model["provenance"].get("characters")
    trained = f", trained on {characters:,} characters" if is_whole(characters) else ""
    counts = ", ".join(f"{count:,} {name}" for name, count in results["examples"].items())
    negative, positive = map(html.escape, results["classes"])
    side = "High" if neuron["polarity"] > 0 else "Low"
    return (
        f"{layer_of(_cell(results)).feature.capitalize()} of a model of "
        f"{model['architecture']['hidden_size']:,} units{trained}, after the text. {counts} texts; "
        f"label {positive} is the positive one, {negative} the negative. {side} values of the unit "
        f"mean label {positive}. Numbers keep its sign; in the histogram, positive is to the right."
    )


def _ranks(results: Results) -> str:
    neuron, count = results["neuron"], results["all_units"]["units"]
    rank, best = neuron["rank"], results["ranking"]["units"][0]["unit"]
    opposite = (
        f" Its weight, {neuron['weight']:+.3f}, has the other sign: units that carry the same "
        "information share the weight."
        if neuron["polarity"] * neuron["weight"] < 0
        else ""
    )
    how = "of largest weight" if neuron["chosen"] == "weight" else "asked for"
    return (
        f"The unit is the one {how}. Of {count:,} units it is number {rank['weight']:,} by weight "
        f"in the L1 regression on all units, {rank['accuracy']:,} by accuracy alone and "
        f"{rank['area']:,} by AUC (area under the ROC curve). The most accurate is unit "
        f"{best}.{opposite}"
    )


def _units(results: Results) -> str:
    rows = []
    for row in results["ranking"]["units"]:
        low, high = row["test_area_interval"]
        rows.append([
            f"{row['unit']} ({'+' if row['polarity'] > 0 else '&minus;'})",
            percent(row, "train_accuracy"), percent(row, "val_accuracy"), *_accuracy(row),
            f"{row['test_area']:.3f}", f"{low:.3f} to {high:.3f}", f"{row['weight']:+.3f}",
            "{weight} / {accuracy} / {area}".format(**row["rank"]),
        ])  # fmt: skip
    names = ["unit", "train", "val", "test", INTERVAL, "test AUC", INTERVAL,
             "weight", "rank by weight / accuracy / AUC"]  # fmt: skip
    chosen = f"<tr><td>{results['neuron']['index']} ("
    return table(names, rows).replace(chosen, f'<tr class="chosen">{chosen[4:]}')


def _lost(results: Results) -> str:
    points = [
        "{:+.1f} points ({:+.1f} to {:+.1f})".format(
            *(-100 * value for value in (row["lost"], *reversed(row["lost_interval"])))
        )
        for row in (results["without"][name] for name in ("refitted", "held"))
    ]
    return (
        f"Without the unit, refitted on the others, the accuracy changes by {points[0]}; with the "
        f"unit clamped to its mean in every text, nothing refitted, by {points[1]}."
    )


def _without(results: Results) -> str:
    removed = {"refitted": "refitted on the others", "held": "clamped to its mean"}
    rows = [[name, *_accuracy(results["without"][key])] for key, name in removed.items()]
    return table([f"without unit {results['neuron']['index']}", "test accuracy", INTERVAL], rows)


def _labels(by_labels: dict[str, Any]) -> str:
    columns = [by_labels["curves"][name] for name in CURVES]
    rows = [
        [f"{count:,}", *(cell for point in points for cell in _accuracy(point, "draw_interval"))]
        for count, *points in zip(by_labels["counts"], *columns, strict=True)
    ]
    names = [cell for label, _ in CURVES.values() for cell in (label, INTERVAL)]
    return table(["labels", *names], rows)


def _pieces(titles: dict[str, str], pieces: Results, measure: str, limit: float) -> str:
    """Return the texts or moments of each kind under a title, each with its measure."""
    parts = []
    for kind, title in titles.items():
        parts.append(f"<h3>{html.escape(title)}{'' if pieces[kind] else ': none'}</h3>")
        for piece in pieces[kind]:
            about = f"{piece[measure]:+.3f}, label {piece['label']}, row {piece['row']}"
            parts.append(f'<p class="value">{html.escape(about)}</p>\n{_coloured(piece, limit)}')
    return "\n".join(parts)


def _coloured(piece: dict[str, Any], limit: float) -> str:
    """Return characters coloured by value; a word may be underlined."""
    spans = [
        f"<span {shade(value, limit)}>{html.escape(character)}</span>"
        for character, value in zip(visible(piece["text"]), piece["values"], strict=True)
    ]
    start, stop = piece.get("mark", (0, 0))
    marked = "".join(spans[start:stop])
    middle = f"<mark>{marked}</mark>" if marked else ""
    before, after = ("&hellip;" if piece[key] else "" for key in ("cut_before", "cut_after"))
    body = before + "".join(spans[:start]) + middle + "".join(spans[stop:]) + after
    return f'<div class="text" dir="auto">{body}</div>'


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


def _accuracy(row: dict[str, Any], interval: str = "test_interval") -> list[str]:
    low, high = (100 * value for value in row[interval])
    return [percent(row), f"{low:.1f} to {high:.1f}"]


def _image(picture: str | None, alternative: str) -> str:
    if picture is None:
        return f"<p>{html.escape(alternative)}: could not be drawn.</p>"
    svg = base64.b64encode(picture.encode()).decode()
    return f'<img alt="{html.escape(alternative)}" src="data:image/svg+xml;base64,{svg}">'


def _cell(results: Results) -> str:
    """Return the name of the model's cell in its configuration."""
    return str(results["model"]["architecture"].get("cell", "mlstm"))


def _finetuned(results: Results) -> bool:
    """Return whether the model's provenance names one that it was fine-tuned from."""
    return "finetuned_from" in results["model"]["provenance"]
