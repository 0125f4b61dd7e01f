"""Make the tables of the first page from the results of all experiments."""

import re
from collections.abc import Iterator
from typing import Any

from data_utils.published_sets.registry import SETS, Published
from data_utils.published_sets.registry import Row as SetRow
from experiments.default_model.methods import folder_megabytes
from experiments.default_model.tables import accuracy
from experiments.features.tables import best_on_val, clearest, titles_in, written
from experiments.finetuning.table import main_measures
from experiments.neuron.tables import with_draws
from experiments.reproduction.table import in_words, number, result_of
from experiments.scaling.emulated import LARGEST, Results, Row, between, scaling_of
from experiments.scaling.publication.puri import HOURS_BY_FIGURE, HOURS_BY_TEXT, SCALING
from experiments.shipped.tables import bits, history, named, sst, titled, with_error
from experiments.tables import EXPERIMENTS, markdown, read_result
from experiments.tables import accuracy as accuracy_in
from experiments.time_to_target.report import ADAM, OURS, SECONDS, races, seconds_of, spread
from experiments.time_to_target.run import LOOP_2018, RECIPE_2018
from model.files.shipped import ALIASES, SHIPPED_MODELS
from model.files.storage import read_json

PLAIN, SUBWORDS, DEFAULT = "amazon_1024", "amazon_subword_1024", "stars_1024"
DEFAULTS = ALIASES.values()
FINETUNING = EXPERIMENTS / "finetuning" / "results" / PLAIN
PUBLISHED = read_json(EXPERIMENTS / "reproduction" / "published.json")

Cells = list[str]  # four: what, published, here, how


def studies() -> str:
    """Return the studies with the first question that each one asks."""
    pages = {path.parent.name: path.read_text() for path in EXPERIMENTS.glob("*/README.md")}
    rows = [[f"[{name}]({name}/README.md)", first_question(pages[name])] for name in sorted(pages)]
    return markdown(["study", "question"], rows)


def first_question(page: str) -> str:
    """Return the first sentence under the heading "Question" that is one, without its links."""
    (text,) = re.findall(r"^## Question\n(.*?)^## ", page, flags=re.MULTILINE | re.DOTALL)
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return next(each for each in re.split(r"(?<=[.?]) (?=[A-Z])", words) if each.endswith("?"))


def models(*names: str) -> str:
    """Return the shipped models with their size, accuracy on SST and bits per character."""
    rows = [
        [
            f"[{titled(name)}](model/pretrained/{name}/README.md)",
            f"{folder_megabytes(SHIPPED_MODELS / name):.1f} MB",
            accuracy(name, "sst") if name in DEFAULTS else sst(name, "all_units"),
            bits(name),
        ]
        for name in names
    ]
    return markdown(["model", "size", "SST test, per cent", "bits per character"], rows)


def results() -> str:
    """Return the published values beside ours."""
    rows = [language_model(), subwords(), *sentiment(), *scaling(), race(), precision()]
    return markdown(["what", "published", "here", "how"], rows)


def language_model() -> Cells:
    """Return bits per character of 1,024 units."""
    read = next(history(PLAIN))["characters"] / 1e6
    published = published_bits(1024)
    return [
        "Amazon reviews, 1,024 units: bits per character",
        f"{published:.2f} (38 G characters; read off a figure, on training text)",
        f"{bits(PLAIN)}, on test",
        f"`{PLAIN}`: {read:,.0f} M characters",
    ]


def subwords() -> Cells:
    """Return bits per character of the 1,024 units that read pieces of words."""
    more = with_error(read_result("billion", "bits_all"))
    return [
        "the same, pieces of words instead of bytes",
        "",
        f"{bits(SUBWORDS)}; {more}",
        f"`{SUBWORDS}`, of the reviews that `{PLAIN}` read; of half as much text more, not shipped",
    ]


def published_bits(units: int, precision: str | None = None) -> float:
    """Return the final bits per character of a published model with this number of units."""
    rows = PUBLISHED["bits_per_character"]
    wanted = (units, precision)
    (found,) = (row["value"] for row in rows if (row["units"], row.get("precision")) == wanted)
    return float(found)


def sentiment() -> list[Cells]:
    """Return accuracies on sentiment, with frozen features and after learning from labels."""
    tuned = main_measures(FINETUNING)["sst"]["ours"]
    return [
        *transfer("sst"),
        best_features(),
        read_twice(),
        beside_subwords(),
        unit_of_subwords(),
        imdb_by_subwords(),
        prompted_unit(),
        known_unit(),
        [
            "SST; IMDB (some of its reviews): our `default`",
            "",
            f"{accuracy(DEFAULT, 'sst')}; {accuracy(DEFAULT, 'imdb')}",
            "trained on labels, including those of both training sets; TF-IDF on the same kinds of "
            f"texts {accuracy('tfidf', 'sst')}; {accuracy('tfidf', 'imdb')}",
        ],
        [
            "SST, fine-tuned from the model without labels",
            "",
            in_words(tuned["learned"]),
            f"{named(read_result('finetuning', f'{PLAIN}/sst_learned'), PLAIN)}; "
            f"frozen {in_words(tuned['frozen'])}, "
            f"without pretraining {in_words(tuned['untrained'])}",
        ],
        *(row for name in SETS if name != "sst" for row in transfer(name)),
    ]


def prompted_unit() -> Cells:
    """Return the accuracy of one unit once the model has begun to write a title."""
    found = read_result("features", f"{PLAIN}_prompts")
    prompt, row = clearest(found, "sst")
    return [
        "SST, one unit, after the text and the beginning of a title",
        "",
        accuracy_in(row["best_unit"]),
        f"`{PLAIN}`, frozen; {written(prompt)}, on train the clearest of {len(titles_in(found))}",
    ]


def read_twice() -> Cells:
    """Return the accuracy of the states over two readings, and of one unit over the second."""
    sst = read_result("features", f"{PLAIN}_twice")["sets"]["sst"]
    mean = sst["units"]["cell mean"]
    return [
        "SST, each sentence read twice: all units; one unit, mean state of the second reading",
        "",
        f"{accuracy_in(best_on_val(sst['rows']))}; {accuracy_in(mean['again'])}",
        f"`{PLAIN}`, frozen; of several features the best on val; one unit, mean state of the "
        f"first reading {accuracy_in(mean['once'])}",
    ]


def known_unit() -> Cells:
    """Return the accuracy of the unit that is known beforehand, with the fewest labels."""
    found = read_result("neuron", f"{PLAIN}/neuron")["by_labels"]
    ours, words = (found["curves"][name][0] for name in ("known_unit", "tfidf"))
    return [
        f"SST, one unit known beforehand, its cut from {found['counts'][0]} labels",
        "",
        with_draws(ours),
        f"`{PLAIN}`, frozen; TF-IDF fitted to as many labels {with_draws(words)}",
    ]


def best_features() -> Cells:
    """Return the accuracies by other features of the model without labels than the papers'."""
    sst = best_on_val(read_result("features", PLAIN)["sets"]["sst"]["rows"])
    imdb = best_on_val(read_result("features", f"{PLAIN}_imdb")["sets"]["imdb"]["rows"])
    names = dict.fromkeys(" + ".join(row["features"]) for row in (sst, imdb))
    return [
        "SST; IMDB: more features than the last state",
        "",
        f"{accuracy_in(sst)}; {accuracy_in(imdb)}",
        f"`{PLAIN}`, frozen; {'; '.join(names)}: of several the best on val",
    ]


def beside_subwords() -> Cells:
    """Return the accuracy by features of the model without labels and of one of subwords."""
    best = best_on_val(read_result("features", f"{PLAIN}_beside_subword")["sets"]["sst"]["rows"])
    return [
        "SST: the same features of two models side by side",
        "",
        accuracy_in(best),
        f"`{PLAIN}` and `{SUBWORDS}`, which was given no labels either, frozen",
    ]


def unit_of_subwords() -> Cells:
    """Return the accuracy by one unit of the model that reads subwords, of the text as it is."""
    unit = read_result("features", f"{SUBWORDS}_prompts")["sets"]["sst"]["after"]["nothing"]
    return [
        "SST, one unit: pieces of words instead of bytes",
        "",
        accuracy_in(unit["best_unit"]),
        f"`{SUBWORDS}`, frozen, unit {unit['best_unit']['axis']}: of all units the best on train",
    ]


def imdb_by_subwords() -> Cells:
    """Return the accuracy on IMDB by the published protocol of the model that reads subwords."""
    found = read_result("reproduction", f"{SUBWORDS}/imdb")
    return [
        "IMDB, all units; one unit: pieces of words instead of bytes",
        "",
        f"{accuracy_in(found['all_units'])}; {accuracy_in(found['one_unit'])}",
        f"`{SUBWORDS}`, frozen",
    ]


def transfer(task: str) -> Iterator[Cells]:
    """Yield the rows of a set for the first page."""
    entry = SETS[task]
    for row in entry.first_page:
        words = [entry.first_page_title or entry.title, *[row.title] * (len(entry.rows) > 1)]
        yield [", ".join(words), published(task, row), *measured(task, row)]


def published(task: str, row: SetRow) -> str:
    """Return the published values of a row in per cent, one for each number of units."""
    found: dict[int, Published] = {}
    for entry in SETS[task].published:
        if entry.row == row.name and entry.units in (1024, 4096):
            found[entry.units] = entry
    return ", ".join(
        f"{100 * value.value:.1f} ({units:,} units{note(value)})"
        for units, value in sorted(found.items())
    )


def note(value: Published) -> str:
    """Return what sets a published value apart."""
    if value.unchecked:
        return ", unchecked"
    return ", fine-tuned on the task" if value.source == "kant" else ""


def measured(task: str, row: SetRow) -> tuple[str, str]:
    """Return our value without labels, and those of its baselines."""
    result = result_of(PLAIN, task)
    tfidf = number(result["tfidf"], row.measure)["value"]
    baselines = [f"TF-IDF {100 * tfidf:.1f}"]
    if row.of == "all_units" and "untrained" in result:
        untrained = number(result["untrained"], row.measure)["value"]
        baselines.append(f"untrained {100 * untrained:.1f}")
    if "always" in result:
        always = number(result["always"], row.measure)["value"]
        baselines.append(f"every emotion always {100 * always:.1f}")
    ours = in_words(number(result[row.of], row.measure), row.measure)
    return ours, f"{named(result, PLAIN)}, frozen; {', '.join(baselines)}"


def scaling() -> list[Cells]:
    """Return the performance model and the scale model of a cluster."""
    fitted = read_result("scaling", "published")
    emulated = Results(read_result("scaling", "emulated"))
    old, new = emulated.training("2018", 1), emulated.training("today", 1)
    parameters, points = fitted["fitted_parameters"], sum(map(len, SCALING.values()))
    return [
        [
            "speed of 128 V100s relative to one: 4,096 units over Ethernet; over InfiniBand; 8,192 "
            "units",
            joined(curve[-1] for curve in SCALING.values()),
            joined(curve[-1] for curve in fitted["predicted"].values()),
            f"a performance model of {parameters} parameters fitted to {points} points, "
            f"{fitted['worst_error']:.1%} off at worst; not a measurement. It takes the computing "
            f"time from their text, {HOURS_BY_TEXT:g} h an epoch (their figure has "
            f"{HOURS_BY_FIGURE:g})",
        ],
        [
            f"the same over 10 Gb/s Ethernet, {', '.join(map(str, old))} GPUs",
            joined(SCALING["ethernet_4096"][1:]),
            f"{', '.join(map(with_ends, old.values()))}; with today's exchange "
            f"{with_ends(new[LARGEST])} at {LARGEST}",
            "a scale model on one machine: real exchanges between network namespaces, sleep "
            "in place of computing, nothing fitted; medians of undisturbed runs [lowest to "
            "highest; runs]",
        ],
    ]


def joined(values: Any) -> str:
    """Join speeds with commas."""
    return ", ".join(f"{value:.1f}" for value in values)


def with_ends(row: Row) -> str:
    """Return the median of a point, its slowest and fastest run, and the number of runs."""
    ends = f"{between(row)}; {row['runs']}" if row["runs"] > 1 else "1 run"
    return f"{scaling_of(row):.1f} [{ends}]"


def race() -> Cells:
    """Return the race to the score of the published recipe."""
    found = races()
    ends = [race_of[RECIPE_2018] for race_of in found.values()]
    names = (LOOP_2018, RECIPE_2018, OURS, ADAM)
    loop, recipe, ours, adam = (spread(seconds_of(name, found), SECONDS) for name in names)
    target = spread([end.bits for end in ends], "{:.2f}")
    return [
        f"seconds of training to the {target} bits that the published recipe reaches after "
        f"{ends[0].characters / 1e6:.0f} M characters (512 units)",
        f"{loop} (their recipe, run here byte by byte; by our recurrence {recipe})",
        f"{ours}; Adam at 2e-2: {adam}",
        f"[the same two cores, {len(ends)} seeds; what else differs]"
        "(experiments/time_to_target/README.md)",
    ]


def precision() -> Cells:
    """Return fp16 against fp32."""
    runs = read_result("scaling", "precision")["runs"]
    ended = {run["name"]: run["valid_bits_per_character"] for run in runs}
    theirs = [published_bits(4096, name) for name in ("fp16", "fp32")]
    seeds = max(abs(ended[f"fp32_seed_{seed}"] - ended["fp32"]) for seed in (1, 2))
    return [
        "fp16 against fp32, bits per character",
        f"{theirs[0]:.3f} and {theirs[1]:.3f} (4,096 units, training)",
        f"{ended['fp16']:.3f} and {ended['fp32']:.3f}; another seed changes it by {seeds:.3f}",
        "256 units, 2 M characters",
    ]


def late() -> str:
    """Describe how late sentiment comes in the published models."""
    found = {
        row.units: row.value
        for row in SETS["sst"].published
        if (row.row, row.source) == ("all_units", "puri")
    }
    words = [
        f"of {units:,} units, at {published_bits(units):.2f} bits per character, "
        f"has {100 * found[units]:.1f} %"
        for units in (256, 1024)
    ]
    models = ", that ".join(words)
    return (
        f"In the published models sentiment comes with size: on SST Puri et al.'s model {models}."
    )
