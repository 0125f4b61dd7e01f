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


def of_module(module: str, options: str = "") -> str:
    """Return the command of a study that a module of this folder makes into files of its name."""
    words = [f"python -m experiments.scaling.{module}", options]
    words += [f"--output {FOLDER}/results/{module}.json", f"--figure {FOLDER}/{module}.png"]
    return " ".join(filter(None, words))


def planned(cluster: str, options: str) -> str:
    """Return the command of the plan for a cluster."""
    return (
        f"python scripts/plan.py --model 4096 --cluster configs/clusters/{cluster}.toml"
        f" {options} --output {FOLDER}/results/plan_{cluster}.json"
    )


EMULATED = (
    f"python -m experiments.scaling.emulated --output {FOLDER}/results/emulated.json"
    f" --figures {FOLDER}"
)
CLUSTERS = {
    "dgx1v_infiniband": "--characters 38.3e9",
    "dgx1v_ethernet": "--characters 38.3e9",
    "h200": "--characters 38.3e9",
    "mixed_lab": "--lanes-per-gpu 128 --exchange overlapped",
}
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
        "\n".join(planned(*cluster) for cluster in CLUSTERS.items()),
        tuple(f"results/plan_{cluster}.json" for cluster in CLUSTERS),
    ),
    Study(
        "Measured on this machine, gloo: a check of the sweep",
        f"python -m experiments.scaling.sweep --output {FOLDER}/results/sweep_gloo --worlds 1,2"
        " --hidden 64,128 --exchanges fp32,fp16,flat,powersgd,adasum --buckets 0.1,25"
        " --windows 1,4 --lanes-per-rank 16 --window 32 --blocks 3 --steps 5 --repeats 3\n"
        f"python -m experiments.scaling.measured --sweep {FOLDER}/results/sweep_gloo"
        f" --output {FOLDER}/results/measured_gloo.json --figure {FOLDER}/measured_gloo.png",
        ("results/measured_gloo.json",),
        ("measured_gloo.png",),
    ),
    Study(
        "A scale model of a cluster",
        f"{EMULATED} --only allreduce,buckets,skipped\n"
        f"{EMULATED} --only ethernet,today --stretch 3",
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
