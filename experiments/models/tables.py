"""Make the tables of README.md, of the models' cards and of SOURCES.md."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.baselines import BASELINES
from experiments.intervals import Difference
from experiments.results import find_result, read_result
from experiments.tables import accuracy, markdown, origins, percent, revision
from mlstm_sentiment.files.shipped import ALIASES, CONFIG_FILE, SHIPPED_MODELS, shipped_models
from mlstm_sentiment.files.storage import read_json

HERE = Path(__file__).resolve().parent
MILLION = 1e6
PLANNED = 1.6e9  # characters of "start again"
ROWS_OF_A_RUN = 6  # at most about so many rows of a run are shown
NORMAL = 1.96  # standard errors on either side of a 95 % interval
KEPT = "kept: "  # begins the names of sources in the reports of select_reviews
SELECTED = ("amazon", "other")  # parts of sources.json that select_reviews chose from
FILMS = {
    "imdb_train.jsonl.gz": "films: IMDB's train part, without its labels",
    "imdb_unlabelled.jsonl.gz": "films: IMDB's unlabelled part",
}
THINGS = {
    "airbnb_mongodb": "lodging (Inside Airbnb, 15 MB at most)",
    "airbnb_singapore": "lodging, Singapore",
    "airbnb_albany": "lodging, Albany",
    "airbnb_isabel": "lodging, an unknown city",
    "steam_pitt45": "games (Steam)",
    "womens_clothing": "clothing",
    "druglib_train": "drugs",
}
SELECTIONS = ("selection", "selection_films", "selection_things")
TOKENS = {"bytes": "bytes", "pieces": "subword tokens"}  # names in results, and on pages


def bits(model: str) -> str:
    """Return the bits per character of the held-out reviews, with their 95 % interval."""
    result = of_these_weights(f"bits_{model}", model)
    if result is None:
        return "not measured"
    return with_error(result)


def with_error(result: Mapping[str, Any]) -> str:
    """Return bits per character with their 95 % interval over reviews."""
    value = result["bits_per_character"]
    margin = NORMAL * result["standard_error"]
    return f"{value:.3f} ({value - margin:.3f} to {value + margin:.3f})"


def of_these_weights(name: str, model: str) -> dict[str, Any] | None:
    """Return a kept result that names no model, or None if it is older than the weights."""
    result = find_result("models", name)
    (*_, last) = history(model)
    return result if result and result["origin"]["date"] >= last["date"] else None


def sst(model: str, row: str) -> str:
    """Return the accuracy of a row on SST's test set, with its interval."""
    result = sst_of(model)
    return accuracy(result[row]) if result else "not measured"


def sst_of(model: str) -> dict[str, Any] | None:
    """Return a model's result on SST, or None if none was measured with the shipped weights."""
    result = find_result("reproduction", f"{model}/sst")
    return result if result and is_of_the_shipped(result, model.removesuffix("_full")) else None


def characters(model: str) -> str:
    """Return how much unlabelled text a model was trained on."""
    (first, *_) = history(model)
    onward = f", {first['characters'] / MILLION:,.0f} M of them in its ending"
    total = f"{characters_read(first) / MILLION:,.0f} M"
    return f"{total}{onward * ('began_from' in first)}"


def characters_read(part: Mapping[str, Any]) -> int:
    """Return the characters of a training and of earlier ones whose weights it began with."""
    before = characters_read(part["began_from"]) if "began_from" in part else 0
    return before + int(part["characters"])


def begun(part: Mapping[str, Any]) -> str:
    """Say from which weights a training began, if it names them."""
    weights = given(part, "--train.start-from")
    return f", begun from {weights}" * bool(weights)


def given(part: Mapping[str, Any], option: str) -> str:
    """Return what a training's command gives for an option, in backticks; "" if nothing."""
    words = part.get("command", "").split()
    return next((f"`{value}`" for word, value in pairwise(words) if word == option), "")


def history(model: str) -> Iterator[dict[str, Any]]:
    """Return the trainings of a model from the first to the last, as its config.json has them."""
    return trainings(read_json(SHIPPED_MODELS / model / CONFIG_FILE)["provenance"])


def trainings(provenance: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the trainings that made a model, the first one first.

    A training that several averaged models began with comes several times.
    """
    for part in provenance.get("mean_of", ()):
        yield from trainings(part)
    for before in ("averaged_with", "finetuned_from"):
        if before in provenance:
            yield from trainings(provenance[before])
    yield from provenance.get("tuned", ())
    yield provenance


def rows_of(model: str) -> dict[str, str]:
    """Return the measurements of a model by their names in the table."""
    neuron = find_result("neuron", f"{model}/neuron")
    memory = of_these_weights(f"memorization_{model}", model)
    rows = {
        "trained on, characters": characters(model),
        "bits per character, held-out Amazon reviews": bits(model),
        "SST test, all units, per cent": sst(model, "all_units"),
        **one_unit_rows(model),
        **{
            f"SST test, {baseline.title}": accuracy(read_result("reproduction", "tfidf/sst")[name])
            for name, baseline in BASELINES.items()
        },
        "SST test, untrained": sst(model, "untrained"),
    }
    if neuron is not None and is_of_the_shipped(neuron, model):
        rows["SST val, all units"] = percent(neuron["all_units"]["val_accuracy"])
    if memory is not None:
        train = memory["train"]
        key = "bytes" if "continuation_bytes" in memory else "pieces"
        size, token = memory[f"continuation_{key}"], TOKENS[key]
        rows[f"next {size} {token} recited"] = f"{train['exact']} of {train['prompts']:,} prompts"
        reviews = "training reviews and held-out reviews"
        rows[f"mean number of leading {token} recited, of {size}: {reviews}"] = (
            f"{train['mean_prefix']:.1f} and {memory['test']['mean_prefix']:.1f}"
        )
    both = (model, f"{model}_full")
    rows["as shipped, full weights: bits per character"] = in_both(
        [of_these_weights(f"bits_{name}", model) for name in both],
        lambda result: f"{result['bits_per_character']:.4f}",
    )
    rows["as shipped, full weights: SST test, all units"] = in_both(
        map(sst_of, both), lambda result: percent(result["all_units"]["test_accuracy"])
    )
    return rows


def one_unit_rows(model: str) -> dict[str, str]:
    """Return one unit's accuracy on every set; SST's train split decides unit and threshold."""
    result = find_result("reproduction", f"{model}/one_rule")
    if result is None:
        return {}
    names = {"sst": "SST", "imdb": "IMDB", "cr": "CR", "mr_all": "MR"}
    best, heaviest = (result["rules"][rule] for rule in ("best_on_train", "largest_weight"))
    rows = {
        f"{names[name]} test, the unit that is best on SST's train split": (
            f"{accuracy(row)}, unit {best['unit']}"
        )
        for name, row in best["sets"].items()
        if name in names
    }
    heaviest_row = f"{accuracy(heaviest['sets']['sst'])}, unit {heaviest['unit']}"
    return {**rows, "SST test, the unit of largest weight": heaviest_row}


def in_both(results: Iterable[Any], describe: Callable[[Any], str]) -> str:
    """Return the results of the shipped, quantized weights and of the full weights."""
    return ", ".join(describe(result) if result else "not kept" for result in results)


def is_of_the_shipped(result: dict[str, Any], model: str) -> bool:
    """Return whether a result is of the training step that the shipped weights come from.

    Digests cannot show this, because the full and the quantized weights have different ones.
    """
    (*_, last) = history(model)
    provenance = result["model"]["provenance"]
    return all(provenance.get(key) == last.get(key) for key in ("git_revision", "step", "corpus"))


def named(result: dict[str, Any], model: str) -> str:
    """Return the name of a result's model: a model that is or was shipped, or its forerunner."""
    if model not in shipped_models() or is_of_the_shipped(result, model):
        return f"`{model}`"
    read = result["model"]["provenance"].get("characters")
    trained = f" trained on {read / MILLION:,.0f} M characters" if read else ""
    return f"a forerunner of `{model}`{trained}"


def shipped(*models: str) -> str:
    """Return the measurements of models side by side, and their revisions."""
    columns = [rows_of(model) for model in models]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[name, *(column.get(name, "") for column in columns)] for name in names]
    files = {
        f"{name}.json": result
        for model in models
        for name in (f"bits_{model}", f"bits_{model}_full", f"memorization_{model}")
        if (result := of_these_weights(name, model))
    }
    return f"{markdown(['', *map(titled, models)], rows)}\n\n{origins(files)}"


def titled(model: str) -> str:
    """Return the name of a model with its alias, if it has one."""
    aliases = [f" (`{alias}`)" for alias, meaning in ALIASES.items() if meaning == model]
    return "".join([f"`{model}`", *aliases])


def commands(model: str) -> str:
    """Return the commands that trained a model, from its config.json; each once."""
    lines = (f"- `python {part['command']}`, revision {revision(part)}" for part in history(model))
    return "\n".join(dict.fromkeys(lines))


def selection() -> str:
    """Return the numbers of reviews that were kept, and left out for each reason."""
    counts = read_result("models", "selection")["reviews"]
    rows = [["in all", f"{sum(counts.values()):,}"]]
    rows += [[name, f"{n:,}"] for name, n in counts.items() if name.startswith("left out: ")]
    rows.append(["kept", f"{count_kept(counts):,}"])
    return markdown(["reviews", "number"], rows)


def other_reviews() -> str:
    """Return the numbers of reviews of films and other things."""
    films, things = (read_result("models", f"selection_{part}") for part in ("films", "things"))
    rows = [
        [title, f"{selection['reviews'][KEPT + name]:,}"]
        for selection, titles in ((films, FILMS), (things, THINGS))
        for name, title in titles.items()
    ]
    named = things["titles"]
    rows.append(["of all of these: with a title", f"{named['with a title']:,}"])
    rows.append(["whose title names stars", f"{named['whose title names stars']:,}"])
    return markdown(["new part", "reviews"], rows)


def near_copies() -> str:
    """Return how many held-out reviews are near copies of train reviews, and their bits."""
    found = read_result("models", "near_copies")
    counts = " and ".join(
        f"{part['copies']} of the {part['reviews']:,} of {name}"
        for name, part in ((name, found[name]) for name in ("valid", "test"))
    )
    test = found["test"]
    return (
        f"Of the held-out reviews, {counts} are near copies of a review in the train split: they "
        "share at least half of their runs of twelve words with it. The copies came from another "
        "source, and often one of the two has the title in front. Processed one by one, the near "
        f"copies in test take {test['bits_of_copies']:.3f} bits per character of `amazon_1024`, "
        f"the other reviews {test['bits_of_others']:.3f}."
    )


def titles() -> str:
    """Return how many reviews name stars in their title, and how many are negative."""
    found = read_result("models", "selection")
    with_one, with_stars = found["titles"].values()
    positive, negative = (found["sides"][side] for side in ("positive", "negative"))
    return (
        f"Of the {count_kept(found['reviews']):,} reviews, {with_one:,} have a title, and "
        f'{with_stars:,} of the titles name stars, such as "Five Stars". So the training '
        "text has some ratings in words, not marked as ratings. Of the "
        f"{positive + negative:,} reviews whose stars or label we know, "
        f"{negative / (positive + negative):.0%} are negative: some sources were balanced by label "
        "before we took them, and no label was used to choose among the reviews."
    )


def count_kept(counts: Mapping[str, int]) -> int:
    """Return how many reviews were kept."""
    return sum(count for name, count in counts.items() if name.startswith(KEPT))


def sources(kind: str) -> str:
    """Return the sources of texts: the data set, its stated terms, and the address."""
    counts = kept_reviews() if kind in SELECTED else {}
    rows = [
        [
            f"`{name}`",
            source["what"],
            source["data"],
            source["terms"],
            ", ".join(linked(*address) for address in source["addresses"].items()),
            f"{counts[name]:,}" if counts else "",
        ]
        for name, source in read_json(HERE / "sources.json")[kind].items()
    ]
    return markdown(
        ["source", "what", "data set", "terms as stated", "taken from", "reviews"], rows
    )


def kept_reviews() -> dict[str, int]:
    """Return how many reviews of each source were selected for the models without labels."""
    parts = (read_result("models", name)["reviews"] for name in SELECTIONS)
    return {
        reason.removeprefix(KEPT).removesuffix(".jsonl.gz"): count
        for part in parts
        for reason, count in part.items()
        if reason.startswith(KEPT)
    }


def linked(address: str, commits: list[str]) -> str:
    """Return an address as a link, with the commits of the files."""
    name = address.removeprefix("https://github.com/")
    return f"[{name}]({address}) at {', '.join(commits)}"


def start_again() -> str:
    """Return bits, and accuracies on SST's val, of the trainings with weight decay."""
    result = read_result("models", "start_again")
    runs = {"beginning": result["beginning"]}
    runs |= {name: run["rows"] for name, run in result["runs"].items()}
    rows = []
    for name, evaluated in runs.items():
        step = max(len(evaluated) // ROWS_OF_A_RUN, 1)
        shown = evaluated[::-1][::step][::-1]  # the last row is among them
        if name.startswith("fall"):
            shown = evaluated[-1:]
        rows += [
            [
                name,
                f"{row['characters'] / MILLION:,.0f} M",
                f"{row['valid_bits_per_character']:.3f}",
                *(percent(row[f"probe{part}_accuracy"]) for part in ("", "_last")),
                f"{percent(row['probe_unit_accuracy'])} ({row['probe_unit']})",
            ]
            for row in shown
        ]
    head = ["run", "characters", "valid, bits per character", "all units, mean state"]
    return markdown([*head, "last state", "best unit, mean state"], rows)


def start_again_units() -> str:
    """Return the AUC of each training's best unit on SST's train and val sentences, and on val."""
    result = read_result("models", "start_again")
    rows = [
        [
            name,
            f"{run['characters'] / MILLION:,.0f} M",
            f"{run['bits']:.3f}",
            f"{run['unit']['unit']}",
            *(area_of(run.get(key)) for key in ("unit", "val")),
            gain_of(run, "unit"),
            gain_of(run, "val"),
        ]
        for name, run in result["runs"].items()
    ]
    for weights, shipped in result["shipped"].items():
        name = f"`amazon_subword_1024`, weights {weights}, at {revision(shipped['origin'])}"
        areas = [area_of(shipped), area_of(shipped["val"])]
        rows.append([name, "", "", f"{shipped['unit']}", *areas, "", ""])
    head = ["run", "characters", "valid, bits per character", "unit", "AUC, train and val"]
    return markdown(
        [*head, "AUC, val", "less that of the shipped unit (its weights)", "the same, val"],
        rows,
    )


def start_again_goals() -> str:
    """Return what was aimed at before the training, and what the shipped weights have."""
    units = read_result("models", "start_again")["runs"]["fallmix12"]
    one = read_result("reproduction", "amazon_subword_1024/one_rule")["rules"]["best_on_train"]
    cr = read_result("reproduction", "amazon_subword_1024/cr")
    rows = [
        ["characters, million", "1,600", f"{units['characters'] / MILLION:,.0f}"],
        ["AUC of the unit, SST's train and val", "0.900", area_of(units["unit"])],
        ["SST, one unit", "81.2", accuracy(one["sets"]["sst"])],
        ["SST, all units", "81.8", sst("amazon_subword_1024", "all_units")],
        ["IMDB, the same unit and threshold", "87", accuracy(one["sets"]["imdb"])],
        ["CR, the same unit and threshold", "83", accuracy(one["sets"]["cr"])],
        ["CR, all units", "85", accuracy(cr["all_units"])],
        ["bits per character, held-out Amazon reviews", "1.345", bits("amazon_subword_1024")],
    ]
    return markdown(["what", "goal", "`amazon_subword_1024`"], rows)


def area_of(unit: dict[str, Any] | None) -> str:
    """Return an AUC with its interval; a dash where it was not measured."""
    if unit is None:
        return "-"
    low, high = unit["interval"]
    return f"{unit['area']:.3f} ({low:.3f} to {high:.3f})"


def gain_of(run: dict[str, Any], sentences: str) -> str:
    """Return how much larger an AUC is than that of the unit shipped then, with the rule's word."""
    if "against" not in run:
        return "-"
    gain = run[sentences]["to_shipped"]
    low, high = gain["difference_interval"]
    word = Difference(gain["difference"], (low, high)).word
    return f"{gain['difference']:+.3f} ({low:+.3f} to {high:+.3f}), {word} ({run['against']})"


def start_again_outlook(begin: str, end: str) -> str:
    """Return where the unit would be if each doubling of the text went on gaining as much.

    The interval has the errors of both AUCs, and what they have in common on the same sentences.
    """
    result = read_result("models", "start_again")
    first, last = result["runs"][begin], result["runs"][end]
    gain = result["gains"][f"{begin}, {end}"]
    doublings = math.log2(last["characters"] / first["characters"])
    ahead = math.log2(PLANNED / last["characters"]) / doublings
    area = last["unit"]["area"] + ahead * gain["difference"]
    intervals = (each["unit"]["interval"] for each in (first, last))
    of_first, of_last, of_gain = (
        (high - low) ** 2 for low, high in (*intervals, gain["difference_interval"])
    )
    # Of (1 + ahead) last - ahead first: squares of the intervals' widths, like variances.
    common = (of_first + of_last - of_gain) / 2
    square = (1 + ahead) ** 2 * of_last + ahead**2 * of_first - 2 * ahead * (1 + ahead) * common
    margin = math.sqrt(square) / 2
    lowest, highest = (value / doublings for value in gain["difference_interval"])
    return (
        f"Gain of the unit's AUC a doubling, `{begin}` to `{end}`: "
        f"{gain['difference'] / doublings:.3f} ({lowest:.3f} to {highest:.3f}). If it stayed so, "
        f"{area:.3f} ({area - margin:.3f} to {area + margin:.3f}) after "
        f"{PLANNED / MILLION:,.0f} million characters."
    )
