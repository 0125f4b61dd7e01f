"""The runs of convergence.py: each has a rule for the rate and a size of its updates."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from experiments.training_runs import Recipe
from training.optimizers.optim import OptimConfig

from .runs import Run

BASE_LANES = 16
# Peak rates for 16 lanes. All rules begin at the best of them; lower rates were worse.
SEARCHED = (1.2e-2, 2.4e-2, 4.8e-2)
KEYS: Mapping[str, Any] = {
    "model.hidden_size": 128,
    "model.forget_gate_bias": 1.0,
    "data.window": 64,
    "optim.name": "adam",
    "optim.warmup": 0.05,
    "optim.clip_norm": 1.0,
    "train.precision": "fp32",
}
ROWS = 24  # rows of metrics of each run

Rule = Literal["same", "linear", "square root", "papers"]


@dataclass(frozen=True)
class Case:
    """One run: the size of an update, the rule for its rate, and its length."""

    rule: Rule
    lanes: int
    base_rate: float = math.nan
    """Rate at 16 lanes; the papers' rule needs none."""
    windows: int = 1
    """Windows between two updates."""
    ranks: int = 1
    """If above 1, the ranks that Adasum combines; each has its part of the lanes."""
    part: float = 1.0
    """Part of the budget of characters."""
    seed: int = 0
    """Another seed shows the effect of chance."""

    @property
    def times(self) -> float:
        """The size of an update over that of the base."""
        return self.lanes * self.windows / BASE_LANES

    @property
    def series(self) -> str:
        """The curve that the run belongs to."""
        if self.seed:
            return "another seed"
        if self.rule == "same" and self.times == self.part == 1:
            return "searched"
        if self.ranks > 1:
            return "adasum"
        return f"skipped, {self.rule}" if self.windows > 1 else self.rule

    @property
    def rate(self) -> float:
        """The peak rate."""
        if self.rule == "papers":
            return OptimConfig().peak(self.lanes)
        power = {"same": 0.0, "square root": 0.5, "linear": 1.0}[self.rule]
        return self.base_rate * self.times**power

    @property
    def name(self) -> str:
        """The name of its run and folder."""
        words = [self.series.replace(", ", "_").replace(" ", "_"), str(self.lanes)]
        words += [f"x{self.windows}"] if self.windows > 1 else []
        words += [f"rate_{self.rate:g}"] if self.series == "searched" else []
        return "_".join(words + (["short"] if self.part < 1 else []))

    def run(self, characters: int) -> Run:
        """Return the run, for a budget of characters."""
        keys = {
            **KEYS,
            "data.lanes": self.lanes,
            "optim.lr": self.rate,
            **({"parallel.windows_per_step": self.windows} if self.windows > 1 else {}),
            **({"parallel.combine": "adasum"} if self.ranks > 1 else {}),
            **({"seed": self.seed} if self.seed else {}),
        }
        read = round(characters * self.part)
        steps = Recipe(self.name, read, keys).steps
        recipe = Recipe(self.name, read, {**keys, "log.every_steps": max(1, steps // ROWS)})
        return Run(recipe, self.ranks, {**self.facts(), "steps": steps})

    def facts(self) -> dict[str, Any]:
        """Return the facts about the case for its result."""
        return {
            "series": self.series,
            "lanes": self.lanes,
            "windows_per_step": self.windows,
            "rate": self.rate,
            "part": self.part,
        }


def independent() -> list[Case]:
    """Return the runs without a base rate: the search for it, and the papers' rule."""
    tried = (Case("same", BASE_LANES, rate) for rate in SEARCHED)
    return [*tried, *(Case("papers", lanes) for lanes in (64, 256, 1024))]


def scaled(base_rate: float) -> list[Case]:
    """Return all other runs; the series take turns."""

    def case(rule: Rule, lanes: int, **changes: Any) -> Case:
        return Case(rule, lanes, base_rate, **changes)

    return [
        case("linear", 64),
        case("square root", 64),
        case("same", 64, ranks=4),
        case("same", 16, windows=4),
        case("same", 64),
        case("linear", 256),
        case("square root", 256),
        case("same", 256, ranks=16),
        case("same", 16, windows=16),
        case("same", 256),
        case("square root", 16, windows=4),
        case("square root", 16, windows=16),
        case("linear", 1024),
        case("square root", 1024),
        case("same", 16, seed=1),
        # As many updates as with 256 lanes; they read fewer characters by the ratio of the lanes.
        case("same", 16, part=1 / 16),
        case("linear", 64, part=1 / 4),
        case("square root", 64, part=1 / 4),
    ]
