"""The tables and the figure of runs that read up to a billion characters, from results/.

python -m experiments.billion.report
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from configs import command
from experiments.features.tables import best_on_val
from experiments.figures import BLUE, GREEN, GREY, PURPLE, RED, panels
from experiments.shipped.tables import MILLION, with_error
from experiments.subwords.report import columns
from experiments.tables import (
    EXPERIMENTS,
    accuracy,
    markdown,
    origins,
    percent,
    read_result,
    table_of,
)
from training.metrics import read_rows

FOLDER = EXPERIMENTS / "billion"
OF_SST = (
    "SST, all units, published protocol",
    "one unit, of largest weight",
    "one unit, best on train",
    "largest areas of a unit, on train",
)
LEVELS = (0.65, 0.70, 0.75)  # accuracies of one unit on val


@dataclass(frozen=True)
class Run:
    """Where the results of one run lie."""

    curve: str
    bits: tuple[str, str]
    colour: str
    model: str | None  # names its results on SST; None: its weights were not kept

    def rows(self) -> list[dict[str, Any]]:
        """Read its evaluations."""
        return read_rows(EXPERIMENTS / self.curve)


RUNS = {
    "first seed": Run(
        "subwords/results/curve_long.jsonl",
        ("subwords", "bits_long"),
        GREY,
        "amazon_subword_1024_long",
    ),
    "second seed": Run(
        "billion/results/curve_seed_1.jsonl",
        ("billion", "bits_seed_1"),
        BLUE,
        "amazon_subword_1024_seed_1",
    ),
    "dropout": Run(
        "billion/results/curve_dropout.jsonl",
        ("billion", "bits_dropout"),
        RED,
        "amazon_subword_1024_full",
    ),
    "more reviews": Run(
        "billion/results/curve_all.jsonl",
        ("billion", "bits_all"),
        GREEN,
        "amazon_subword_1024_all",
    ),
    "2,048 units": Run("billion/results/curve_wide.jsonl", ("billion", "bits_wide"), PURPLE, None),
}


def best(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the evaluation with the fewest bits on valid, whose weights are kept."""
    return min(rows, key=lambda row: row["valid_bits_per_character"])


def on_test() -> str:
    """Return what the weights of each run score on test sets."""
    lines, files = [], {}
    for name, run in RUNS.items():
        measured = read_result(*run.bits)
        files[f"{name}, bits"] = measured
        line = {
            "run": name,
            "million characters": f"{best(run.rows())['characters'] / MILLION:,.0f}",
            "test, bits per character": with_error(measured),
        }
        if run.model is None:
            line |= dict.fromkeys(OF_SST, "weights not kept")
        else:
            sst = read_result("reproduction", f"{run.model}/sst")
            after = read_result("features", f"{run.model}_prompts")
            files |= {f"{name}, SST": sst, f"{name}, units": after}
            line |= _of_sst(sst, after["sets"]["sst"]["after"]["nothing"])
        lines.append(line)
    return f"{table_of(lines)}\n\n{origins(files)}"


def _of_sst(sst: Mapping[str, Any], bare: Mapping[str, Any]) -> dict[str, str]:
    """Return cells of SST's test set. bare: of the units after the text and nothing else."""
    clearest, next_one = bare["areas"][:2]
    one = bare["best_unit"]
    cells = (
        accuracy(sst["all_units"]),
        accuracy(sst["one_unit"]),
        f"{accuracy(one)}, unit {one['axis']}",
        f"{clearest:.2f}, {next_one:.2f}",
    )
    return dict(zip(OF_SST, cells, strict=True))


def features() -> str:
    """Return for each run the features of SST that are best on val, and what they score on test."""
    rows, files = [], {}
    for name, run in RUNS.items():
        if run.model is None:
            continue
        files[name] = read_result("features", run.model)
        chosen = best_on_val(files[name]["sets"]["sst"]["rows"])
        rows.append([name, " + ".join(chosen["features"]), chosen["fit"], accuracy(chosen)])
    head = ["run", "best on val", "regression", "its accuracy on SST's test set"]
    return f"{markdown(head, rows)}\n\n{origins(files)}"


def when() -> str:
    """Return after how many characters one unit, best on train, first reaches levels on val."""
    rows = []
    for name, run in RUNS.items():
        probed = [row for row in run.rows() if "probe_unit_accuracy" in row]
        reached = (
            next((row for row in probed if row["probe_unit_accuracy"] >= level), None)
            for level in LEVELS
        )
        cells = [f"{row['characters'] / MILLION:,.0f}" if row else "-" for row in reached]
        highest = max(row["probe_unit_accuracy"] for row in probed)
        rows.append([name, *cells, percent(highest), str(probed[-1]["probe_unit"])])
    head = ["million characters until one unit has, per cent", *(percent(n) for n in LEVELS)]
    return markdown([*head, "its highest", "unit at the end"], rows)


PANELS = {
    "valid, bits per character": "valid_bits_per_character",
    "SST val, all units, mean state": "probe_accuracy",
    "SST val, all units, last state": "probe_last_accuracy",
    "SST val, one unit, mean state": "probe_unit_accuracy",
}


def main() -> None:
    """Draw bits, and SST's accuracy by each state and by one unit, by characters read."""
    with panels(FOLDER / "curves.png", len(PANELS), size=(14, 3.6), grid=True) as (_, axes):
        for axis, (title, key) in zip(axes, PANELS.items(), strict=True):
            for name, run in RUNS.items():
                rows = [row for row in run.rows() if key in row]
                style = {"color": run.colour, "label": name, "marker": ".", "linewidth": 1}
                axis.plot(*columns(rows, key), **style)
            axis.set(xlabel="characters read, millions", ylabel=title)
        axes[0].set_ylim(1.33, 1.6)
        axes[0].legend(frameon=False)


if __name__ == "__main__":
    command.run_plain(main, __doc__)
