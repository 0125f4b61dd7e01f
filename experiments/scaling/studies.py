"""What the report shows: a line here adds a study."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = "experiments/scaling"


@dataclass(frozen=True)
class Study:
    """Files that one command makes, by name or pattern, below experiments/scaling.

    Tables are found beside the results: results/x.md is of results/x.json.
    """

    title: str
    command: str
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


def of_module(module: str, options: str = "") -> str:
    """Return the command of a study that a module of this folder makes into files of its name."""
    words = [f"python -m experiments.scaling.{module}", options]
    words += [f"--output {FOLDER}/results/{module}.json", f"--figure {FOLDER}/{module}.png"]
    return " ".join(filter(None, words))


STUDIES = (
    Study(
        "The published figure, explained",
        f"python {FOLDER}/published.py --output {FOLDER}/results/published.json"
        f" --figure {FOLDER}/published.png",
        ("results/published.json",),
        ("published.png",),
    ),
    Study(
        "The model against the exchange replayed over real links",
        f"python -m experiments.scaling.replayed --output {FOLDER}/results/replayed.json",
        ("results/replayed.json",),
    ),
    Study(
        "Regression alone",
        f"python -m experiments.scaling.regressed --output {FOLDER}/results/regressed.json",
        ("results/regressed.json",),
    ),
    Study(
        "The planner",
        "python scripts/plan.py --model 4096 --cluster configs/clusters/dgx1v_infiniband.toml"
        f" --characters 38.3e9 --output {FOLDER}/results/plan_dgx1v_infiniband.json",
        ("results/plan_*.json",),
    ),
    Study(
        "Measured on this machine, gloo: a check of the sweep",
        f"python -m experiments.scaling.measured --sweep {FOLDER}/results/sweep_gloo"
        f" --output {FOLDER}/results/measured_gloo.json --figure {FOLDER}/measured_gloo.png",
        ("results/measured_gloo.json",),
        ("measured_gloo.png",),
    ),
    Study(
        "A scale model of a cluster",
        f"python -m experiments.scaling.emulated --output {FOLDER}/results/emulated.json"
        f" --figures {FOLDER}",
        ("results/emulated.json",),
        ("emulated.png", "emulated_ddp.png"),
    ),
    Study(
        "Convergence under scale",
        of_module("convergence", "--corpus data/reviews --work runs/convergence"),
        ("results/convergence.json",),
        ("convergence.png",),
    ),
    Study(
        "Processes against threads",
        of_module("interpreter"),
        ("results/interpreter.json",),
        ("interpreter.png",),
    ),
    Study(
        "Memory and precision",
        of_module("precision", "--corpus data/reviews --work runs/precision"),
        ("results/precision.json",),
        ("precision.png",),
    ),
)
