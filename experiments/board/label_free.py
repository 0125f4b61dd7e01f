"""When does label-free transfer beat labels? By distance of the domain, and number of labels.

python -m experiments.board --data DATA --domains tablets tweets    # see __main__.py

The sentiment unit has its threshold and sign from SST's train split, and no label of another
domain. It is compared on the same test texts with bags of n-grams fitted to 10 to 3,000 labels of
the domain, C by cross-validation on these labels, and with bags fitted to many labels of others.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.sparse import csr_matrix
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from data_utils.provenance import describe_origin
from experiments.baselines import BASELINES, NaiveBayesRegression
from experiments.intervals import WORDS, Difference, Measured, compare, compare_draws
from experiments.results import NotMeasured, find_result, write_result
from experiments.tables import markdown, origins, percent
from mlstm_sentiment import SentimentFeaturizer
from transfer.plots import BLUE, GREY, ORANGE, STYLE, save_png

from .domains import COUNTS, DISTANCES, DOMAINS, TESTED
from .methods import STRENGTHS, Answers, Fitted, Unit, film_bag, public_bag
from .sets import SEED, Texts, left_out, read_set

HERE = Path(__file__).resolve().parent
MODEL = "amazon_subword_1024"
DRAWS = 5  # of the labels
RIDGES = 10.0 ** np.arange(0, 7)


OUTSIDE = {"films": "film labels", "all": "film and product labels"}


def measure_domains(data: Path, names: Sequence[str]) -> None:
    """Write the result of each domain that is there, and draw the figure."""
    if not names:
        return
    featurizer = SentimentFeaturizer.from_pretrained(MODEL)
    unit = Unit(MODEL, data)
    bags = {"films": film_bag(data), "all": public_bag(data)}
    settings = {**unit.settings, "draws": DRAWS, "tested": TESTED, "seed": SEED}
    outside = {name: bag.settings for name, bag in bags.items()}
    for name in names:
        with left_out(name):
            texts = read_set(DOMAINS[name], data)
            features = featurizer.transform(texts.texts)
            row = measure(texts, features, unit.answer_of(features[:, unit.number]), bags)
            about = {"config": settings, "fitted_outside": outside, "origin": describe_origin()}
            write_result("board", f"label_free/{name}", {**row, **about})
            print(name, row["unit"], row["counts"], row["curves"], flush=True)
    save_png(draw(measured_domains()), HERE / "label_free.png", kind=None)


def measured_domains() -> dict[str, dict[str, Any]]:
    """Return the results of all domains that have one."""
    found = {name: find_result("board", f"label_free/{name}") for name in DOMAINS}
    domains = {name: row for name, row in found.items() if row is not None}
    if not domains:
        raise NotMeasured("no domain was measured")
    return domains


def measure(
    texts: Texts, features: np.ndarray, unit: Answers, bags: dict[str, Fitted]
) -> dict[str, Any]:
    """Return the accuracy of the unit, and how far it is ahead of each bag.

    features: float32 [N, units]; unit: its answers.
    """
    labels = texts.labels == 1
    tested, pool = np.split(np.arange(len(labels)), [TESTED])

    def measured(answers: Answers) -> Measured:
        right, *drawn = [
            (positive[tested] > 0.5) == labels[tested]
            for positive in (answers.positive, *answers.draws)
        ]
        return Measured(right, [float(draw.mean()) for draw in drawn])

    own = measured(unit)
    words = BASELINES["nb"].features().fit_transform(texts.texts)
    learners: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "bag": lambda rows: by_bag(words[rows], labels[rows], words[tested]),
        "all_units": lambda rows: by_units(features[rows], labels[rows], features[tested]),
    }
    counts = [count for count in COUNTS if count <= len(pool)]
    draws = {  # of all texts there is only one
        count: [
            draw_rows(labels, pool, seed)[:count]
            for seed in range(DRAWS if count < len(pool) else 1)
        ]
        for count in counts
    }
    curves = {
        name: [
            against(own, [learn(rows) == labels[tested] for rows in draws[count]])
            for count in counts
        ]
        for name, learn in learners.items()
    }
    outside = {}
    for name, bag in bags.items():
        other = measured(bag.answer(texts.texts[:TESTED]))
        outside[name] = described(float(other.right.mean()), compare(own, other))
    return {
        "unit": float(own.right.mean()),
        "counts": counts,
        "curves": curves,
        "outside": outside,
        "digest": texts.digest,
    }


def draw_rows(labels: np.ndarray, pool: np.ndarray, seed: int) -> np.ndarray:
    """Return the rows of a pool at random, the two sides alternating."""
    chooser = np.random.default_rng(seed)
    sides = [chooser.permutation(pool[labels[pool] == side]) for side in (False, True)]
    count = min(map(len, sides))
    return np.stack([side[:count] for side in sides], axis=1).ravel()


def by_bag(known: csr_matrix, labels: np.ndarray, tested: csr_matrix) -> np.ndarray:
    """Return the answers of a bag whose C is chosen by cross-validation on its own labels."""
    columns = np.flatnonzero(known.getnnz(axis=0))
    folds = StratifiedKFold(3, shuffle=True, random_state=SEED)
    search = GridSearchCV(NaiveBayesRegression(), {"c": STRENGTHS}, cv=folds)
    search.fit(known[:, columns], labels)
    return search.predict(tested[:, columns])


def by_units(known: np.ndarray, labels: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """Return the answers of a ridge regression on all units, its strength by leave-one-out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few labels: nearly singular
        fit = make_pipeline(StandardScaler(), RidgeClassifierCV(RIDGES)).fit(known, labels)
        return fit.predict(tested)


def against(own: Measured, others: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return the mean accuracy of a method's draws, bool [N] each, and the unit's lead over it."""
    lead = compare_draws([own.right], others).widened(own.margin)
    return described(float(np.mean(others)), lead)


def described(accuracy: float, lead: Difference) -> dict[str, Any]:
    """Return another method's accuracy, and the unit's lead over it."""
    return {"accuracy": accuracy, "lead": lead.value, "interval": list(lead.interval)}


def word(row: dict[str, Any]) -> str:
    """Return whether the unit is ahead, level or behind."""
    return Difference(row["lead"], tuple(row["interval"])).word


@mpl.rc_context(STYLE)
def draw(domains: dict[str, dict[str, Any]]) -> Figure:
    """Draw the lead of the unit over a bag of the domain's own labels, by number of labels."""
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    colors = dict(zip(DISTANCES, (BLUE, "tab:green", ORANGE, "tab:red"), strict=True))
    for distance in DISTANCES:
        rows = [row for name, row in domains.items() if DOMAINS[name].distance == distance]
        curves = [[100 * point["lead"] for point in row["curves"]["bag"]] for row in rows]
        for curve in curves:
            axes.plot(COUNTS[: len(curve)], curve, color=colors[distance], linewidth=0.6, alpha=0.5)
        shortest = min(map(len, curves), default=0)
        mean = np.mean([curve[:shortest] for curve in curves], axis=0) if curves else []
        axes.plot(
            COUNTS[:shortest], mean, "o-", color=colors[distance], label=f"{distance} ({len(rows)})"
        )
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks(COUNTS, [f"{count:,}" for count in COUNTS])
    axes.set(
        xlabel="labels of the domain that the bag is fitted to",
        ylabel="one unit ahead of the bag, points",
    )
    axes.legend(frameon=False, title="distance (domains)")
    return figure


def table() -> str:
    """Return the accuracy of the unit and its lead over each bag, by domain."""
    domains = measured_domains()
    rows = []
    for name, row in domains.items():
        domain = DOMAINS[name]
        points = dict(zip(row["counts"], row["curves"]["bag"], strict=True))
        cells = [shown(points.get(count)) for count in COUNTS]
        cells += [shown(row["outside"][key]) for key in OUTSIDE]
        rows.append([domain.distance, domain.title, percent(row["unit"]), *cells])
    head = ["distance", "domain", "one unit, %", *(f"{count:,} labels" for count in COUNTS)]
    fitted = next(iter(domains.values()))["fitted_outside"]
    head += [f"{fitted[key]['fitted_to']:,} {title}" for key, title in OUTSIDE.items()]
    text = markdown(head, rows, "ll" + "r" * (len(head) - 2))
    return f"{text}\n\n{origins(domains)}"


def shown(row: dict[str, Any] | None) -> str:
    """Return a lead in points with its interval, and the word."""
    if row is None:
        return "-"
    return f"{percent(row['lead'], row['interval'])}, {word(row)}"


def units_table() -> str:
    """Return the accuracy of a ridge regression on all units, and of the bag, by labels."""
    rows = []
    for name, row in measured_domains().items():
        pairs = zip(row["curves"]["all_units"], row["curves"]["bag"], strict=True)
        cells = [f"{percent(a['accuracy'])}, {percent(b['accuracy'])}" for a, b in pairs]
        cells += ["-"] * (len(COUNTS) - len(cells))
        rows.append([DOMAINS[name].title, percent(row["unit"]), *cells])
    head = ["domain", "one unit", *(f"{count:,} labels" for count in COUNTS)]
    return markdown(head, rows)


def answer() -> str:
    """Say when label-free transfer beats labels, and count the domains by their distance."""
    domains = measured_domains()
    groups = {
        distance: {n: row for n, row in domains.items() if DOMAINS[n].distance == distance}
        for distance in DISTANCES
    }
    groups = {distance: rows for distance, rows in groups.items() if rows}
    beaten = ", ".join(f"{distance} {most_beaten(rows)}" for distance, rows in groups.items())
    lines = [
        "**Answer.** When the domain has few labels. The unit has none of them, and is ahead of a "
        "bag of words fitted to so many labels of the domain, or fewer, in most domains: "
        f"{beaten}."
    ]
    fitted = next(iter(domains.values()))["fitted_outside"]
    for key, title in OUTSIDE.items():
        words = [word(row["outside"][key]) for row in domains.values()]
        counts = ", ".join(f"{each} in {words.count(each)}" for each in WORDS)
        lines.append(
            f"Next to a bag fitted to {fitted[key]['fitted_to']:,} {title}, the unit is {counts} "
            f"of {len(words)} domains."
        )
    text = "\n".join(lines)
    head = ["domains where the unit is ahead, level, behind", *(f"{n:,} labels" for n in COUNTS)]
    rows = [[f"{title} ({len(rows)})", *tallies(rows)] for title, rows in groups.items()]
    return f"{text}\n\n{markdown([*head, *OUTSIDE.values()], rows)}"


def words_by_count(domains: dict[str, Any], place: int) -> list[str]:
    """Return the word of each domain that has a point at this place of COUNTS."""
    curves = (row["curves"]["bag"] for row in domains.values())
    return [word(curve[place]) for curve in curves if place < len(curve)]


def most_beaten(domains: dict[str, Any]) -> str:
    """Return the largest number of labels up to which the unit is ahead in most domains.

    A domain that has not so many labels counts as one where it is not.
    """
    best = "no labels"
    for place, count in enumerate(COUNTS):
        if words_by_count(domains, place).count("ahead") * 2 <= len(domains):
            break
        best = f"{count:,}"
    return best


def tallies(domains: dict[str, Any]) -> list[str]:
    """Return the numbers of domains by word: for own labels by number, then for other domains'."""
    cases = [words_by_count(domains, place) for place in range(len(COUNTS))]
    cases += [[word(row["outside"][key]) for row in domains.values()] for key in OUTSIDE]
    return [
        ", ".join(str(words.count(each)) for each in WORDS) if words else "-" for words in cases
    ]
