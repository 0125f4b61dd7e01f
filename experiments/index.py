"""Make the tables of the first page and of experiments/README.md."""

from functools import partial
from pathlib import Path
from typing import Any

from experiments.board import tables as board
from experiments.intervals import Difference
from experiments.learning.tables import largest
from experiments.models.tables import NORMAL
from experiments.reproduction.answer import (
    BYTES,
    SUBWORDS,
    against_published,
    all_units,
    compared_with_published,
    emotions_lead,
    one_unit,
    reproduced,
)
from experiments.reproduction.page import shipped_score
from experiments.results import read_result
from experiments.tables import markdown, percent, span
from mlstm_sentiment.files.shipped import SHIPPED_MODELS

SHIPPED = {"stars_1024": "`default`", "stars_512": "`default_small`", SUBWORDS: "", BYTES: ""}


def models() -> str:
    """Return the shipped models on the first page."""
    rows = []
    for name, alias in SHIPPED.items():
        megabytes = f"{folder_megabytes(SHIPPED_MODELS / name):.1f} MB"
        link = f"[{alias or f'`{name}`'}](mlstm_sentiment/pretrained/{name}/README.md)"
        method = alias.strip("`") or name
        rows.append([
            f"{link} (`{name}`)" if alias else link,
            "yes, also SST's and IMDB's" if alias else "no",
            megabytes,
            board.value(method, "sst"),
            board.value(method, "remarks"),
            f"{bits(name):.3f}",
        ])  # fmt: skip
    head = ["model", "trained with labels", "size", "SST", "everyday remarks"]
    return markdown([*head, "bits per character"], rows, "llrrrr")


def many_units() -> str:
    """Say on the first page how many units the sentiment is in."""
    study = read_result("neuron", f"clamped_{SUBWORDS}")["units"][0]
    unit, left_out, held = study["unit"], study["left_out"]["sets"][0], study["held"]["sets"][0]
    whole = all_units(SUBWORDS, "sst")
    return f"""\
One unit shows the sentiment, and the others take a part of it from there. Unit {unit} alone classifies {one_unit(SUBWORDS, "sst")} % of SST correctly, all units {whole} %. A regression that leaves it out
has {percent(left_out["test_accuracy"])} %: the others know as much. But if the unit is held still while the network reads, one on the others has {percent(held["test_accuracy"])} %, {percent(held["lost"], held["lost_interval"])} points less than all.
On everyday remarks, unit {unit} alone has {board.cell("unit", "remarks")} %, {board.chance("remarks")}. [Is it a neuron?](experiments/neuron/axes.md)"""  # noqa: E501


def folder_megabytes(folder: Path) -> float:
    """Return the size of a folder's files in units of 10^6 bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def summary() -> str:
    """Return our two models without labels and the published values, on the first page."""
    words = percent(read_result("reproduction", "tfidf/semeval")["tfidf"]["plutchik_f1"]["value"])
    by_their_rule = {
        name: percent(reproduced(SUBWORDS, name)["one_unit"]["test_accuracy"])
        for name in ("sst", "imdb")
    }
    ours = (BYTES, SUBWORDS)
    lead = partial(against_published, SUBWORDS)
    rows = [
        ["bits per character, Amazon reviews", "1.34", *(f"{bits(m):.2f}" for m in ours)],
        ["SST, all units", "81.8 %", *(f"{all_units(m, 'sst')} %" for m in ours)],
        ["SST, one unit", "81.2 %", *(f"{one_unit(m, 'sst')} %" for m in ours)],
        ["IMDB, all units", "76.2 %", *(f"{all_units(m, 'imdb')} %" for m in ours)],
        ["IMDB, one unit", "73.4 %", *(f"{one_unit(m, 'imdb')} %" for m in ours)],
        ["SemEval-2018 E-c, mean F1 of 8 emotions", "39.4", percent(emotions(BYTES)["value"]), "-"],
    ]
    words_for = [
        in_points(bits_lead()),
        in_points(lead("sst", "all_units")),
        f"{in_points(lead('sst', 'one_rule'))}; by the papers' rule {by_their_rule['sst']} %",
        in_points(lead("imdb", "all_units")),
        f"{in_points(lead('imdb', 'one_rule'))}, no label of IMDB; by the papers' rule "
        f"{by_their_rule['imdb']} %",
        f"{in_points(emotions_lead())}; word counts have {words}",
    ]
    rows = [[*row, word] for row, word in zip(rows, words_for, strict=True)]
    scores = [shipped_score(model) for model in ours]
    rows.append(["**score**: bits, SST, IMDB, CR", "1", *scores, "one unit by the papers' rule"])
    head = ["what", "published", *(f"`{model}`" for model in ours), "our better one"]
    return markdown(head, rows, "lrrrl")


def bits_lead() -> Difference:
    """Return how far our better model is ahead of the published bits per character.

    These were read off a figure of training text, and count as exact.
    """
    rates = [read_result("models", f"bits_{model}") for model in (BYTES, SUBWORDS)]
    rate = min(rates, key=lambda each: each["bits_per_character"])
    lead, margin = 1.34 - rate["bits_per_character"], NORMAL * rate["standard_error"]
    return Difference(lead, (lead - margin, lead + margin))


def in_points(lead: Difference) -> str:
    """Return the word for a difference, with its interval in points where it is level."""
    if lead.word != "level":
        return lead.word
    return f"level ({percent(lead.value)} points, {span(lead.interval)})"


def _gain(group: str, kind: str) -> str:
    """Return how much better `default` has become on texts of a kind, forced to a side."""
    former, ours = (
        percent(read_result("everyday_english", name)[group][kind]["side"])
        for name in ("test_default_former", "test_default")
    )
    return f"{former} to {ours} %"


def folders() -> str:
    """Return the studies whose commands this revision has: question and answer."""
    speed = read_result("speed", "training_fp32_1024")["ratios"]
    fit = read_result("scaling", "published")
    null = fit["rivals"][0]
    tour = read_result("tour", "transfer")
    rows = [
        (
            "reproduction",
            "How well do a model's features predict sentiment and emotions on the published sets?",
            f"Next to the published model of 1,024 units, `{SUBWORDS}`, trained without labels, is "
            f"{compared_with_published(SUBWORDS, 'all_units')}.",
        ),
        (
            "neuron",
            "Is there a sentiment neuron, and what else do the units know?",
            f"Yes: one unit of `amazon_subword_1024` classifies {one_unit(SUBWORDS, 'sst')} "
            "% of SST correctly, and the others take a part of it from there; in `amazon_1024` "
            "two are equally good, and one feeds the other.",
        ),
        (
            "models",
            "How good a model can be made from the reviews that we may use?",
            f"`amazon_1024` predicts held-out reviews in {bits(BYTES):.3f} bits per character, "
            f"`amazon_subword_1024` in {bits(SUBWORDS):.3f}.",
        ),
        (
            "board",
            "How accurate is every shipped model, and one unit alone, next to honest baselines?",
            f"{board.against_bag('sst', 'On SST')} {board.against_bag('remarks', 'On remarks')}",
        ),
        (
            "default_model",
            "What does `default` learn from, and what does it get wrong?",
            "Labelled reviews, tweets and remarks, and our own grammar; it takes much sarcasm for "
            "praise.",
        ),
        (
            "learning",
            "How much better does `default` become, if a user corrects some of its answers?",
            largest("default"),
        ),
        (
            "everyday_english",
            "Can the default models learn to read remarks, comments and tweets, at no cost for "
            "reviews?",
            f"Mostly: of tweets with a side {_gain('groups', 'tweets, 2013 to 2017')} are right, "
            f"of sarcastic ones {_gain('kinds', 'sarcasm')}; SST and CR better, IMDB level.",
        ),
        (
            "scaling",
            "Which few quantities are consistent with how training scaled to 128 GPUs in 2018?",
            f"Four constants without physics fit all points within {null['worst_by_minimax']:.2%}; "
            f"three bandwidths and an overhead fit them within {fit['worst_by_minimax']:.2%}.",
        ),
        (
            "speed",
            "How close does the recurrence come to the time of its matrix products alone?",
            f"It runs at {speed['to_gemm_floor']:.2f} times their speed (fp32, 1,024 units), and "
            f"is {speed['to_loop_2018']:.1f} times as fast as the loop of 2018.",
        ),
        (
            "tour",
            "What results does the first command of the repository give?",
            f"{percent(tour['test_accuracy'])} % correct on the embedded reviews.",
        ),
    ]
    lines = [[f"[{name}]({name}/README.md)", *words] for name, *words in rows]
    return markdown(["folder", "question", "answer"], lines, "lll")


def emotions(model: str) -> dict[str, Any]:
    """Return the mean F1 of eight emotions, with its interval."""
    return reproduced(model, "semeval")["all_units"]["plutchik_f1"]


def bits(model: str) -> float:
    """Return the bits per character of held-out Amazon reviews."""
    return read_result("models", f"bits_{model}")["bits_per_character"]
