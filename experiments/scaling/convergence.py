"""Measure what is learnt when an update reads more text, by the rule for the learning rate.

python -m experiments.scaling.convergence --corpus data/reviews --work runs/convergence \\
    --output experiments/scaling/results/convergence.json \\
    --figure experiments/scaling/convergence.png
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.tables import markdown
from model.errors import InputError
from model.files.storage import write_json

from .learning.cases import BASE_LANES, KEYS, Case, independent, scaled
from .learning.convergence_figure import draw, equal_steps, read
from .learning.runs import Result, StudyOptions, make_runs

SERIES = {
    "same": "the base rate, unscaled",
    "another seed": "the same, another seed",
    "linear": "rate linear in lanes",
    "square root": "rate by the square root",
    "papers": "the papers' rule: 5e-4 x lanes / 128, at most 3e-3",
    "adasum": "Adasum of ranks of 16 lanes, the base rate",
    "skipped, same": "16 lanes, synchronised every 4th or 16th window, the base rate",
    "skipped, square root": "the same, rate by the square root",
}
SEARCH = "searched"
READ = (16, 64, 256, 1024)  # lanes times windows of an update


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Train a small model in 24 ways; the lanes of one process stand for those of many ranks."""

    characters: int = 10_000_000
    """Characters of a run; runs of equal steps read fewer."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output, options.picture)
    cases = independent()
    cases += scaled(base_rate(trained(cases, options)))
    print(publish(trained(cases, options), options))


def trained(cases: Sequence[Case], options: Options) -> list[Result]:
    """Return the results of all cases; train those that have no result, and publish them."""
    runs = [case.run(options.characters) for case in cases]
    return make_runs(runs, options, lambda results: publish(results, options))


def base_rate(results: Sequence[Result]) -> float:
    """Return the best of the searched rates."""
    best = best_of(results)
    if best is None:
        raise InputError("no searched rate trains; choose lower ones in learning/cases.py")
    return float(best["rate"])


def best_of(results: Sequence[Result]) -> Result | None:
    """Return the best run of the search for the base rate; None if all have diverged."""
    tried = [result for result in results if result["series"] == SEARCH]
    scored = [result for result in tried if result["valid_bits_per_character"] is not None]
    return min(scored, key=lambda result: result["valid_bits_per_character"], default=None)


def with_base(results: Sequence[Result]) -> list[Result]:
    """Return the results, in which the best run of the search is also the base of all rules."""
    best = best_of(results)
    return [*results, *([{**best, "series": "same"}] if best is not None else [])]


def publish(results: Sequence[Result], options: Options) -> str:
    """Write the results and their figure; return the tables."""
    study = {
        "base": {"lanes": BASE_LANES, **KEYS},
        "characters": options.characters,
        "declared_runs": len(independent()) + len(scaled(base_rate=1.0)),
        "runs": list(results),
        "origin": describe_origin(),
    }
    write_json(options.output, study)
    draw(options.picture, with_base(results))
    return tables(study)


def tables(study: Mapping[str, Any]) -> str:
    """Return bits per character for equal characters, equal steps, and the searched rates."""
    results = with_base(study["runs"])
    whole = [result for result in results if result["part"] == 1]
    parts = [
        "Valid, bits per character (peak rate), after as many characters:",
        matrix(whole, READ),
        "Valid, bits per character (peak rate), after as many updates as 256 lanes took:",
        matrix(equal_steps(results), READ[:3]),
        f"The base rate, searched at {BASE_LANES} lanes:",
        rates(whole),
    ]
    return "\n\n".join(parts)


def matrix(results: Sequence[Result], columns: Sequence[int]) -> str:
    """Return a table with a row for each series and a column for each size of an update."""
    found = {(result["series"], read(result)): result for result in results}
    rows = [
        [words, *(cell(found.get((series, column))) for column in columns)]
        for series, words in SERIES.items()
        if any((series, column) in found for column in columns)
    ]
    return markdown(["lanes x windows of an update", *(f"{c:,}" for c in columns)], rows)


def rates(results: Sequence[Result]) -> str:
    """Return the searched rates with their scores."""
    tried = [result for result in results if result["series"] == SEARCH]
    rows = [[f"{r['rate']:g}", score(r)] for r in sorted(tried, key=lambda r: r["rate"])]
    table = markdown(["peak rate", "valid, bits per character"], rows)
    best = best_of(results)
    if best is None or min(r["rate"] for r in tried) < best["rate"] < max(r["rate"] for r in tried):
        return table
    return f"{table}\n\nThe best is the outermost that was tried: beyond may be a better one."


def cell(result: Result | None) -> str:
    """Return a score with its rate."""
    return "" if result is None else f"{score(result)} ({result['rate']:.3g})"


def score(result: dict[str, Any]) -> str:
    """Return bits per character, or `diverged`."""
    bits = result["valid_bits_per_character"]
    return "diverged" if bits is None else f"{bits:.3f}"


if __name__ == "__main__":
    command.run(main)
