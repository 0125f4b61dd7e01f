"""Make the tables of the first page and of experiments/README.md."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.baselines import BASELINES
from experiments.default_model.methods import folder_megabytes
from experiments.models.tables import NORMAL
from experiments.published_sets import SETS
from experiments.reproduction.answer import (
    BYTES,
    SUBWORDS,
    all_units,
    by_one_rule,
    one_unit,
    reproduced,
)
from experiments.results import read_result
from experiments.tables import accuracy, markdown, percent
from mlstm_sentiment.files.shipped import CONFIG_FILE, SHIPPED_MODELS
from mlstm_sentiment.files.storage import read_json

FOLDED = {"mr": "MR", "cr": "CR", "subj": "SUBJ", "mpqa": "MPQA"}  # sets of ten folds
SHIPPED = {"stars_1024": "`default`", "stars_512": "`default_small`", SUBWORDS: "", BYTES: ""}
IN_THE_TABLE = {"tfidf": "TF-IDF", "nb": "NB-weighted", "words_and_characters": "with characters"}
NOTES = """\
- **Bits per character**: the published value was read off figures of NVIDIA/sentiment-discovery (`size_comparison.png` and `16vs32.png`), to 0.005
  bits. It was measured on training text, after 38.3 G characters (one epoch of 40 GB of reviews). Ours were measured on test text.
  `amazon_1024` was trained on {characters:,.0f} M characters. `amazon_subword_1024` was trained on the same reviews as subword tokens, and then
  also on reviews of films and other things, IMDB's training texts (without labels) among them.
- **Frozen**: only the regression is fitted to labels, except for `default`, which was trained on labels, including those of both
  training sets. Where there are several features, we take the best on val.
- **One unit**: the unit and its threshold are chosen on SST's train split. No label of IMDB or CR was used; MR contains SST's sentences. For
  IMDB, the published units were fitted on IMDB.
- **The performance model** has {fitted} parameters fitted to 15 points and is {worst:.1%} off at worst; four constants without physics are {rival:.1%}
  off. It is not a measurement. Its computing time is the 17 h per epoch of their text (their figure has 19.5).
"""  # noqa: E501


def models() -> str:
    """Return the shipped models on the first page."""
    rows = []
    for name, alias in SHIPPED.items():
        megabytes = f"{folder_megabytes(SHIPPED_MODELS / name):.1f} MB"
        link = f"[{alias or f'`{name}`'}](mlstm_sentiment/pretrained/{name}/README.md)"
        if alias:
            result = read_result("default_model", name)
            cells = [f"{link} (`{name}`)", "yes, also SST's and IMDB's", megabytes]
            cells.append(percent(result["sets"]["sst"]["accuracy"]))
            cells.append(percent(result["remarks"]["test"]["sided_accuracy"]))
        else:
            cells = [link, "no", megabytes, all_units(name, "sst"), "-"]
        rows.append([*cells, f"{bits(name):.3f}"])
    head = ["model", "trained with labels", "size", "SST", "everyday remarks"]
    return markdown([*head, "bits per character"], rows, "llrrrr")


def summary() -> str:
    """Return our two models without labels and the published values, on the first page."""
    words = percent(read_result("reproduction", "tfidf/semeval")["tfidf"]["plutchik_f1"]["value"])
    by_their_rule = {
        name: percent(reproduced(SUBWORDS, name)["one_unit"]["test_accuracy"])
        for name in ("sst", "imdb")
    }
    ours = (BYTES, SUBWORDS)
    rows = [
        ["bits per character, Amazon reviews", "1.34", *(f"{bits(m):.2f}" for m in ours), "behind"],
        ["SST, all units", "81.8 %", *(f"{all_units(m, 'sst')} %" for m in ours), "behind"],
        [
            "SST, one unit",
            "81.2 %",
            *(f"{one_unit(m, 'sst')} %" for m in ours),
            f"behind; by the papers' rule {by_their_rule['sst']} %",
        ],
        ["IMDB, all units", "76.2 %", *(f"{all_units(m, 'imdb')} %" for m in ours), "ahead"],
        [
            "IMDB, one unit",
            "73.4 %",
            *(f"{one_unit(m, 'imdb')} %" for m in ours),
            f"ahead, without a label of IMDB; by the papers' rule {by_their_rule['imdb']} %",
        ],
        [
            "SemEval-2018 E-c, mean F1 of 8 emotions",
            "39.4",
            percent(emotions(BYTES)["value"]),
            "-",
            f"level; word counts have {words}",
        ],
    ]
    head = ["what", "published", *(f"`{model}`" for model in ours), "our better one"]
    return markdown(head, rows, "lrrrl")


def _forced(name: str) -> str:
    """Return the accuracy on tweets with a side, of a result of everyday_english."""
    return percent(read_result("everyday_english", name)["groups"]["tweets, 2013 to 2017"]["side"])


def folders() -> str:
    """Return the studies whose commands this revision has: question and answer."""
    speed = read_result("speed", "training_fp32_1024")["ratios"]
    fit = read_result("scaling", "published")
    ours, words = (read_result("default_model", m)["sets"]["sst"] for m in ("stars_1024", "nb"))
    tour, first = read_result("tour", "transfer"), read_result("tour", "first_answer")["first"]
    rows = [
        (
            "reproduction",
            "How well do a model's features predict sentiment and emotions on the published sets?",
            "Better than the published model of 1,024 units on IMDB, worse on SST: trained without "
            f"labels, `amazon_1024` classifies {all_units(BYTES, 'sst')} % of SST correctly "
            f"(published 81.8) and {all_units(BYTES, 'imdb')} % of IMDB (76.2).",
        ),
        (
            "neuron",
            "Is there a sentiment neuron, and what else do the units know?",
            f"Yes: unit 410 of `amazon_subword_1024` alone classifies {one_unit(SUBWORDS, 'sst')} "
            "% of SST correctly; in `amazon_1024` two units share the work.",
        ),
        (
            "models",
            "How good a model can be made from the reviews that we may use?",
            f"`amazon_1024` predicts held-out reviews in {bits(BYTES):.3f} bits per character, "
            f"`amazon_subword_1024` in {bits(SUBWORDS):.3f}.",
        ),
        (
            "default_model",
            "Can a small fine-tuned model classify everyday English better than word baselines, "
            "VADER, TextBlob and a sentence transformer?",
            f"On SST, yes: {percent(ours['accuracy'])} %; NB-weighted n-grams on the same texts "
            f"reach {percent(words['accuracy'])} %. On IMDB and on everyday remarks it is level "
            "with them; on tweets it is level with MiniLM, and behind VADER.",
        ),
        (
            "everyday_english",
            "Can a new head on the same networks read remarks, comments and tweets, at no cost "
            "for reviews?",
            f"Mostly: tweets {_forced('test_default_former')} to {_forced('test_default')} % with "
            "a side, SST and CR better, IMDB half a point worse; sarcasm is still read as praise.",
        ),
        (
            "scaling",
            "Which few quantities are consistent with how training scaled to 128 GPUs in 2018?",
            f"{fit['fitted_parameters']} parameters (three bandwidths and an overhead) fit all "
            f"points within {fit['worst_error']:.1%}; so do four constants without physics.",
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
            f"{percent(tour['test_accuracy'])} % correct on the embedded reviews; a first answer "
            f"after {first['seconds']:.0f} seconds.",
        ),
    ]
    lines = [[f"[{name}]({name}/README.md)", *words] for name, *words in rows]
    return markdown(["folder", "question", "answer"], lines, "lll")


def published() -> str:
    """Return our results next to the published ones and those of word baselines."""
    fit = read_result("scaling", "published")["predicted"]
    known = read_result("neuron", f"{BYTES}/neuron")["by_labels"]
    tuned, words = (read_result("default_model", name)["sets"] for name in ("stars_1024", "nb"))
    rows = [
        *pair("Amazon reviews, bits per character", "1.34 (1,024 units)", with_error),
        *pair("SST, all units", "81.8 (1,024 units), 91.8 (4,096 units)", on_all_units("sst")),
        *pair("IMDB, all units", "76.2 (1,024 units), 92.8 (4,096 units)", on_all_units("imdb")),
        *(
            row
            for name, title in FOLDED.items()
            for row in pair(f"{title}, ten folds, all units", radfords(name), on_all_units(name))
        ),
        *pair("SST, one unit", "81.2 (1,024 units), 86.7 (4,096 units)", on_one_unit("sst")),
        *pair(
            "IMDB, the same unit and threshold",
            "73.4 (1,024 units), 92.1 (4,096 units)",
            on_one_unit("imdb"),
        ),
        *pair("CR, the same unit and threshold", "", on_one_unit("cr")),
        *pair("MR, the same unit and threshold", "", on_one_unit("mr_all")),
        [
            f"SST, one unit known beforehand, its threshold from {known['counts'][0]} labels",
            "",
            drawn(known["curves"]["known_unit"][0]),
            f"`{BYTES}`",
            f"TF-IDF fitted to as many labels {drawn(known['curves']['tfidf'][0])}",
        ],
        *(
            [
                f"{title}, trained on labels",
                "",
                percent(tuned[name]["accuracy"], tuned[name]["accuracy_interval"]),
                "`default`",
                "NB-weighted n-grams on the same texts "
                f"{percent(words[name]['accuracy'], words[name]['accuracy_interval'])}",
            ]
            for name, title in (("sst", "SST"), ("imdb", "IMDB (some of its reviews)"))
        ),
        [
            "SemEval-2018 E-c, mean F1 of 8 emotions",
            "39.4 (4,096 units, fine-tuned on the task)",
            percent(emotions(BYTES)["value"], emotions(BYTES)["interval"]),
            f"`{BYTES}`",
            f"{words_on('semeval')}, every emotion always "
            f"{percent(emotions(BYTES, 'always')['value'])}",
        ],
        *(
            [
                f"speed of 128 V100s relative to one, {units} units, {network}",
                theirs,
                f"{fit[curve][4]:.1f}",
                "the performance model",
                "",
            ]
            for curve, units, network, theirs in (
                ("ethernet_4096", "4,096", "Ethernet", "92.6"),
                ("infiniband_4096", "4,096", "InfiniBand", "109.1"),
                ("infiniband_8192", "8,192", "InfiniBand", "120.9"),
            )
        ),
    ]
    head = ["what", "published", "ours", "our model", "compared with"]
    return markdown(head, rows, "lrrll")


def notes() -> str:
    """Return what the table of published results leaves out."""
    config = read_json(SHIPPED_MODELS / BYTES / CONFIG_FILE)
    fit = read_result("scaling", "published")
    return NOTES.format(
        characters=config["provenance"]["characters"] / 1e6,
        fitted=fit["fitted_parameters"],
        worst=fit["worst_error"],
        rival=fit["rivals"][-1]["worst"],
    )


def radfords(name: str) -> str:
    """Return the published value of Radford et al. on a set."""
    (value,) = (
        each for each in SETS[name].published if (each.source, each.row) == ("radford", "all_units")
    )
    return f"{100 * value.value:.1f} ({value.units:,} units{', unverified' * value.unchecked})"


def pair(what: str, published: str, ours: Any) -> list[list[str]]:
    """Return a row for each of the two models; `ours` gives a value, a name and a comparison."""
    first, second = (ours(model) for model in (BYTES, SUBWORDS))
    return [[what, published, *first], ["the same", "", *second]]


def with_error(model: str) -> Sequence[str]:
    """Return bits per character with the margin of their 95 % interval."""
    result = read_result("models", f"bits_{model}")
    margin = NORMAL * result["standard_error"]
    return f"{result['bits_per_character']:.3f} +- {margin:.3f}", f"`{model}`", ""


def on_all_units(name: str) -> Any:
    """Return a function for `pair`: the accuracy of all units on a set."""

    def of(model: str) -> Sequence[str]:
        result = reproduced(model, name)
        compared = ""
        if model == BYTES:
            compared = words_on(name)
            if name == "sst":
                compared += f"; untrained {percent(result['untrained']['test_accuracy'])}"
        return accuracy(result["all_units"]), f"`{model}`", compared

    return of


def on_one_unit(name: str) -> Any:
    """Return a function for `pair`: the accuracy of one unit on a set."""

    def of(model: str) -> Sequence[str]:
        rule = by_one_rule(model)
        return accuracy(rule["sets"][name]), f"`{model}`, unit {rule['unit']}", ""

    return of


def words_on(name: str) -> str:
    """Return the values of the word baselines on a set."""
    result = read_result("reproduction", f"tfidf/{name}")
    values = {
        key: result[key]["plutchik_f1"]["value"]
        if name == "semeval"
        else result[key]["test_accuracy"]
        for key in BASELINES
    }
    return f"words: {', '.join(f'{IN_THE_TABLE[key]} {percent(values[key])}' for key in values)}"


def drawn(row: Mapping[str, Any]) -> str:
    """Return an accuracy with the interval over draws of labels."""
    return percent(row["test_accuracy"], row["draw_interval"])


def emotions(model: str, row: str = "all_units") -> dict[str, Any]:
    """Return the mean F1 of eight emotions, with its interval."""
    return reproduced(model, "semeval")[row]["plutchik_f1"]


def bits(model: str) -> float:
    """Return the bits per character of held-out Amazon reviews."""
    return read_result("models", f"bits_{model}")["bits_per_character"]
