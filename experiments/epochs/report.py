"""Text read once and text read many times: the table and the learning curves, from results/.

python -m experiments.epochs.report
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from configs import command
from experiments.figures import BLUE, GREEN, GREY, ORANGE, RED, panels
from experiments.studies import HERE, bits_cell, by_name, mean_of, sst_cells, whole_results
from experiments.tables import markdown, origins

STUDY = "epochs"
BEFORE = ("before", HERE / STUDY)  # the runs before the first steps of an epoch were mended
FIGURE = HERE / STUDY / "curves.png"
HEAD = (
    "run", "million characters", "training, bits per character", "valid, at the end",
    "valid, least", "SST, last state", "SST, mean state",
)  # fmt: skip
DRAWN = {
    "fresh": ("every review once", GREY),
    "epochs_12": ("3.3 MB twelve times", BLUE),
    "epochs_12_dropout_0.1": ("the same, dropout 0.1", GREEN),
    "epochs_12_dropout_0.3": ("the same, dropout 0.3", RED),
}
DRAWN_BEFORE = {"epochs_12": ("3.3 MB twelve times, before the mend", ORANGE)}


def main() -> None:
    """Draw the figure."""
    with panels(FIGURE, 1, size=(6.4, 4.0), grid=True) as (_, axes):
        for drawn, runs in ((DRAWN, by_name(STUDY)), (DRAWN_BEFORE, by_name(*BEFORE))):
            for name, (label, color) in drawn.items():
                for number, run in enumerate(runs.get(name, [])):
                    told = None if number else label
                    axes.plot(*zip(*scored(run), strict=True), color=color, label=told)
        axes.set(xlabel="million characters read", ylabel="bits per character on valid")
        axes.set_ylim(top=2.3)
        axes.legend(frameon=False)
    print(f"written to {FIGURE}")


def scored(run: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield the millions of characters read and the bits on valid, at every evaluation."""
    for row in run["rows"]:
        if "valid_bits_per_character" in row:
            yield row["characters"] / 1e6, row["valid_bits_per_character"]


def table() -> str:
    """Return a line for each run, of several seeds the mean."""
    return table_in(STUDY, HERE)


def table_before() -> str:
    """Return the same of the runs before the mend."""
    return table_in(*BEFORE)


def table_in(study: str, here: Path) -> str:
    """Return the table of the runs of a study in `here`."""
    rows = [list(line(name, same)) for name, same in by_name(study, here).items()]
    return f"{markdown(HEAD, rows)}\n\n{origins(whole_results(study, here=here))}"


def line(name: str, same: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the cells of a line."""
    yield f"`{name}`"
    yield f"{same[0]['characters'] / 1e6:.0f}"
    yield mean_of([run["rows"][-1]["train_bits_per_character"] for run in same], 3)
    yield bits_cell(same)
    yield mean_of([min(bits for _, bits in scored(run)) for run in same], 3)
    yield from sst_cells(same)


if __name__ == "__main__":
    command.run_plain(main, __doc__)
