"""How soon recipes end as low as the published one: the table and figure of the race.

python -m experiments.time_to_target.report
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from configs import command
from experiments.figures import BLUE, RED, panels
from experiments.studies import HERE, whole_results
from experiments.tables import NotMeasured, origins, table_of
from experiments.time_to_target.run import LOOP_2018, RECIPE_2018

STUDY, OURS = "time_to_target", "ours"
ADAM = "adam_2e-2"
SECONDS = "{:,.0f}"  # how a number of seconds is shown
COLORS = (BLUE, RED)


@dataclass(frozen=True)
class Finish:
    """Where a run ended."""

    recipe: str
    seed: int
    bits: float  # per character of the valid split
    characters: int
    seconds: float  # of the training steps


def main() -> None:
    draw()


def finishes() -> list[Finish]:
    """Return the end of every run, the shortest first."""
    found = [
        Finish(
            name.partition("_seed_")[0],
            result["keys"]["seed"],
            result["valid_bits_per_character"],
            result["characters_read"],
            result["training_seconds"],
        )
        for name, result in whole_results(STUDY, "*_seed_*").items()
    ]
    return sorted(found, key=lambda finish: finish.characters)


def races() -> dict[int, dict[str, Finish]]:
    """Return who came how far, by seed and recipe; NotMeasured if a seed's race is not whole.

    The loop of 2018 ends where the published recipe ends, in as much longer as it took for the
    characters that it read. A challenger ends with its shortest run that is as low.
    """
    ran = finishes()
    found = {seed: race([run for run in ran if run.seed == seed]) for seed in seeds(ran)}
    if not found:
        raise NotMeasured(f"experiments/{STUDY}/results: no race is whole")
    return found


def seeds(ran: list[Finish]) -> list[int]:
    """Return the seeds of runs, each once."""
    return sorted({run.seed for run in ran})


def race(ran: list[Finish]) -> dict[str, Finish]:
    """Return the end of each recipe of one seed."""
    by_recipe: dict[str, list[Finish]] = {}
    for run in ran:
        by_recipe.setdefault(run.recipe, []).append(run)
    (looped,), target = by_recipe.pop(LOOP_2018), by_recipe.pop(RECIPE_2018)[-1]
    seconds = target.characters * looped.seconds / looped.characters
    loop = Finish(LOOP_2018, target.seed, target.bits, target.characters, seconds)
    ends = {LOOP_2018: loop, RECIPE_2018: target}
    for recipe, tried in by_recipe.items():
        if as_low := [run for run in tried if run.bits <= target.bits]:
            ends[recipe] = as_low[0]
    return ends


def table() -> str:
    """Return the table of the races, medians of their seeds, and the revisions of the runs."""
    found = races()
    recipes = dict.fromkeys(recipe for ends in found.values() for recipe in ends)
    rows = [row(recipe, found) for recipe in recipes]
    return f"{table_of(rows)}\n\n{origins(whole_results(STUDY, '*_seed_*'))}"


def row(recipe: str, found: Mapping[int, Mapping[str, Finish]]) -> dict[str, str]:
    """Return a line of the table."""
    pairs = [(ends[recipe], ends[LOOP_2018]) for ends in found.values() if recipe in ends]
    ends = [end for end, _ in pairs]
    fewer = [loop.characters / end.characters for end, loop in pairs]
    less = [loop.seconds / end.seconds for end, loop in pairs]
    return {
        "recipe": recipe.replace("_", " "),
        "seeds": str(len(ends)),
        "valid, bits per character": spread([end.bits for end in ends], "{:.3f}"),
        "characters": spread([end.characters for end in ends], "{:,.0f}"),
        "times fewer": spread(fewer, "{:.1f}"),
        "seconds": spread([end.seconds for end in ends], SECONDS),
        "times less": spread(less, "{:.1f}"),
    }


def spread(values: list[float], form: str) -> str:
    """Return the median with the range, or the one value that all have."""
    middle, low, high = (form.format(part(values)) for part in (median, min, max))
    return middle if low == high else f"{middle} ({low} to {high})"


def seconds_of(recipe: str, found: Mapping[int, Mapping[str, Finish]]) -> list[float]:
    """Return the seconds that a recipe takes to the target, of each race that it ends."""
    return [ends[recipe].seconds for ends in found.values() if recipe in ends]


def draw() -> None:
    """Draw where each run ended by its seconds, and the targets, into race.png."""
    ran, found = finishes(), races()
    challengers = dict.fromkeys(
        run.recipe for run in ran if run.recipe not in (LOOP_2018, RECIPE_2018)
    )
    with panels(HERE / STUDY / "race.png", 1, size=(7, 4.5), grid=True) as (_, axis):
        for recipe, color in zip(challengers, COLORS, strict=True):
            for seed in found:
                tried = [run for run in ran if (run.recipe, run.seed) == (recipe, seed)]
                seconds, bits = [run.seconds for run in tried], [run.bits for run in tried]
                axis.plot(seconds, bits, "o-", color=color, label=label_of(recipe, seed, found))
        for seed, ends in found.items():
            for recipe, mark in ((RECIPE_2018, "s"), (LOOP_2018, "D")):
                end, label = ends[recipe], label_of(recipe, seed, found)
                axis.plot(end.seconds, end.bits, mark, color="black", label=label)
            axis.axhline(ends[RECIPE_2018].bits, color="black", linewidth=0.8, linestyle="--")
        axis.set(xscale="log", xlabel="seconds of training, two cores: a run each")
        axis.set(ylabel="valid bits per character at its end")
        axis.legend()


def label_of(recipe: str, seed: int, found: Mapping[int, object]) -> str | None:
    """Return a recipe's name in the legend, for the first of the seeds alone."""
    return recipe.replace("_", " ") if seed == min(found) else None


if __name__ == "__main__":
    command.run_plain(main, __doc__)
