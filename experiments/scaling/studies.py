"""What the report shows: a line here adds a study."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.results import AND, result_of

FOLDER = Path("experiments/scaling")


@dataclass(frozen=True)
class Study:
    """Files that one command makes, by name or pattern, below experiments/scaling.

    Tables are found beside the results: results/x.md is of results/x.json.
    """

    title: str
    command: str  # or several, a line each
    results: tuple[str, ...]
    figures: tuple[str, ...] = ()

    def found(self, folder: Path, pattern: str) -> list[Path]:
        """Return the files of a name or pattern, those that are there."""
        return sorted(folder.glob(pattern))

    def missing(self, folder: Path) -> Iterator[str]:
        """Yield the names and patterns of which there is no file."""
        for pattern in (*self.results, *self.figures):
            if not self.found(folder, pattern):
                yield pattern


CLUSTERS = ("dgx1v_infiniband", "dgx1v_ethernet", "h200", "mixed_lab")


def study(
    title: str,
    results: Sequence[str],
    figures: Sequence[str] = (),
    made_of: Sequence[str] = (),
) -> Study:
    """Return a study with the commands that make what it is made of, and then its results."""
    files = [f"{FOLDER.name}/{name}" for name in (*made_of, *results)]
    lines = "\n".join(result_of(file).command.replace(AND, "\n") for file in files)
    return Study(title, lines, tuple(results), tuple(figures))


STUDIES = (
    study("The published figure, explained", ["results/published.json"], ["published.png"]),
    study("The model against the exchange replayed over real links", ["results/replayed.json"]),
    study("Regression alone", ["results/regressed.json"]),
    study("The planner", [f"results/plan_{cluster}.json" for cluster in CLUSTERS]),
    study(
        "Measured on this machine, gloo: a check of the sweep",
        ["results/measured_gloo.json"],
        ["measured_gloo.png"],
        made_of=["results/sweep_gloo/w1_h64_none_k1.json"],
    ),
    study(
        "A scale model of a cluster",
        ["results/emulated.json"],
        ["emulated.png", "emulated_ddp.png"],
    ),
    study("Convergence under scale", ["results/convergence.json"], ["convergence.png"]),
    study("Processes against threads", ["results/interpreter.json"], ["interpreter.png"]),
    study("Memory and precision", ["results/precision.json"], ["precision.png"]),
)
