"""The law of bits by size and by characters, fitted to the runs; its tables and figure.

python -m experiments.sizes.report
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
import torch
from scipy.optimize import least_squares

from configs import command
from experiments.figures import BLUE, GREEN, GREY, RED, panels
from experiments.overview import PLAIN, published_bits
from experiments.shipped.tables import history
from experiments.speeds import shape, timed_on
from experiments.studies import HERE, bits_cell, sst_cell, whole_results
from experiments.tables import markdown, origins
from model.files.storage import read_json
from model.language_model import LanguageModel, ModelConfig

FOLDER = HERE / "sizes"
LONG_RUN = HERE / "shipped" / "results" / "bits_amazon_1024.json"  # in no fit: a test of the law
SPEED = FOLDER / "speed.json"
CHARACTERS_2017 = 38.3e9  # one epoch of the papers' corpus
BOUNDS = ([0, 0, 0.02, 0, 0.02], [2, 25, 1.5, 25, 1.5])  # floor, log n0, alpha, log d0, beta
DRAWN = np.geomspace(1e6, 2e8, 60)  # characters at which the law is drawn
COLORS = (GREY, GREEN, BLUE, RED)  # of the sizes, the smallest first
DIGITS = (2, -3, 2, -3, 2)  # that are shown of the law's numbers
STARTS = (0.5, 0.9, 1.1)  # of the search, for the part that no size and no text removes


@dataclass(frozen=True)
class Law:
    """Bits per character = floor + (n0 / N) ** alpha + (d0 / D) ** beta, as Hoffmann et al. 2022.

    N: parameters; D: characters read.
    """

    floor: float
    n0: float
    alpha: float
    d0: float
    beta: float

    def bits(self, parameters: Any, characters: Any) -> Any:
        """Return the bits per character of a model of so many parameters after so much text.

        Of several models or texts, floats [N], all at once.
        """
        by_size = (self.n0 / parameters) ** self.alpha
        return self.floor + by_size + (self.d0 / characters) ** self.beta


def results() -> list[dict[str, Any]]:
    """Return all runs, by units, then by characters."""
    found = whole_results("sizes").values()
    return sorted(found, key=lambda r: (units(r), r["characters"], r["name"]))


def units(result: dict[str, Any]) -> int:
    """Return how many units a run's model has."""
    return int(result["keys"]["model.hidden_size"])


def fit(found: list[dict[str, Any]], loss: str = "soft_l1") -> Law:
    """Return the law with the least loss of the bits' logarithm.

    loss: as in scipy's least_squares. "soft_l1", robust as Hoffmann et al.'s, lets a run that the
    law misses by more than about a hundredth weigh less than "linear", plain squares, would.
    """
    N, D, bits = (np.array(values, dtype=float) for values in zip(*map(point, found), strict=True))

    def misses(given: np.ndarray) -> np.ndarray:
        return np.log(Law(*decoded(given)).bits(N, D)) - np.log(bits)

    begun = [[start, np.log(1e4), 0.3, np.log(1e5), 0.3] for start in STARTS]
    fits = [least_squares(misses, given, bounds=BOUNDS, loss=loss, f_scale=0.01) for given in begun]
    return Law(*decoded(min(fits, key=lambda found: found.cost).x))


def decoded(given: np.ndarray) -> tuple[float, ...]:
    """Return a law's numbers; the two scales are searched by their logarithms."""
    floor, n0, alpha, d0, beta = map(float, given)
    return floor, float(np.exp(n0)), alpha, float(np.exp(d0)), beta


def point(result: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return a run's parameters, characters and bits per character."""
    return (result["parameters"], result["characters_read"], result["valid_bits_per_character"])


def miss(law: Law, result: Mapping[str, Any]) -> float:
    """Return how far a law misses a run, in bits per character."""
    parameters, characters, bits = point(result)
    return float(abs(law.bits(parameters, characters) - bits))


def table() -> str:
    """Return a line for each size and number of characters; of several seeds the mean.

    The seconds are the characters over the median speed of the shape.
    """
    speed = read_json(SPEED)
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for result in results():
        groups.setdefault((units(result), result["characters"]), []).append(result)
    rows = [
        [
            f"{H:,}",
            f"{same[0]['parameters']:,}",
            f"{characters / 1e6:.0f}",
            f"{characters / speed['cells'][shape(same[0]['keys'])]['median']:.0f}",
            bits_cell(same),
            *(sst_cell(same, *which) for which in COLUMNS.values()),
        ]
        for (H, characters), same in groups.items()
    ]
    head = [
        "units", "parameters", "million characters", "seconds", "valid, bits per character",
        *COLUMNS,
    ]  # fmt: skip
    made = {f"{result['name']}.json": result for result in results()}
    return f"{markdown(head, rows)}\n\n{timed_on(speed)} {origins(made)}"


COLUMNS = {
    "SST, last state": ("last", "all_units"),
    "SST, mean state": ("mean", "all_units"),
    "SST, unit of largest weight, last": ("last", "one_unit"),
    "SST, best unit on train, mean": ("mean", "best_unit"),
}


def left_out(found: list[dict[str, Any]], fact: Callable[..., Any]) -> Iterator[tuple[Law, Any]]:
    """Yield the law that is fitted without the runs of each value of a fact, and these runs."""
    for value in sorted(set(map(fact, found))):
        yield fit([r for r in found if fact(r) != value]), [r for r in found if fact(r) == value]


def standard_errors(found: list[dict[str, Any]]) -> Law:
    """Return the standard error of each number of the law, by the jackknife.

    It leaves out each pair of a size and a number of characters in turn, with the runs of all
    seeds: these are no further evidence, as the law misses pairs by more than seeds differ.
    """
    values = np.array([astuple(law) for law, _ in left_out(found, lambda r: point(r)[:2])])
    return Law(*np.sqrt((len(values) - 1) * values.var(0)))


def law_table() -> str:
    """Return the fitted law, its errors, and what it says of runs that are not in the fit."""
    found = results()
    law, errors = fit(found), standard_errors(found)
    values = [
        " +- ".join(f"{round(number, digits):,.{max(digits, 0)}f}" for number in (value, error))
        for value, error, digits in zip(astuple(law), astuple(errors), DIGITS, strict=True)
    ]
    missed = sorted(found, key=lambda result: -miss(law, result))[:2]
    worst = [(f"in the fit: {units(result):,} units", *point(result)) for result in missed]
    plain = fit(found, loss="linear")
    rows = [
        [f"{name}, {D / 1e6:,.0f} million characters", f"{law.bits(N, D):.3f}", f"{bits:.3f}"]
        for name, N, D, bits in (*worst, *beyond(found))
    ]
    rows += [
        ["largest error in the fit", "", f"{miss(law, missed[0]):.3f}"],
        ["the same, fitted by plain squares", "", f"{max(miss(plain, r) for r in found):.3f}"],
    ]
    unseen = max(miss(other, r) for other, out in left_out(found, units) for r in out)
    rows.append(["largest error for a size that the fit has not seen", "", f"{unseen:.3f}"])
    told = (
        "Bits per character = floor + (n0 / parameters)^alpha + (d0 / characters)^beta, from "
        f"{len(found)} runs of {len({point(result)[:2] for result in found})} pairs of size and "
        "characters (+- standard errors, by leaving out one pair at a time):"
    )
    numbers = markdown([field.name for field in fields(Law)], [values])
    return "\n\n".join([told, numbers, markdown(["", "by the law", "measured"], rows)])


def beyond(found: list[dict[str, Any]]) -> Iterator[tuple[str, float, float, float]]:
    """Yield what is far outside the fit: name, parameters, characters, bits as measured."""
    base = {key: value for key, value in found[0]["keys"].items() if key.startswith("model.")}
    shipped = read_json(LONG_RUN)["bits_per_character"]
    yield "amazon_1024, on test", parameters_of(1024, base), long_characters(), shipped
    for H in (1024, 4096):
        size = parameters_of(H, base)
        yield f"published, on training text, {H:,} units", size, CHARACTERS_2017, published_bits(H)


def parameters_of(units: int, keys: Mapping[str, Any]) -> int:
    """Return how many parameters a model of so many units has; nothing is allocated."""
    settings = {key.removeprefix("model."): value for key, value in keys.items()}
    with torch.device("meta"):
        model = LanguageModel(ModelConfig(**{**settings, "hidden_size": units}))
    return sum(parameter.numel() for parameter in model.parameters())


def long_characters() -> int:
    """Return how much the shipped model has read."""
    return int(next(history(PLAIN))["characters"])


def main() -> None:
    """Draw bits by characters for every size, with the law, and SST by bits."""
    found = results()
    law = fit(found)
    by_units = {H: [r for r in found if units(r) == H] for H in map(units, found)}
    with panels(FOLDER / "law.png", 2, size=(10, 4.2), grid=True) as (_, (left, right)):
        for (H, same), color in zip(by_units.items(), COLORS, strict=True):
            bits = [point(r)[2] for r in same]
            left.plot([point(r)[1] for r in same], bits, "o", color=color, label=f"{H:,} units")
            parameters = point(same[0])[0]
            left.plot(DRAWN, law.bits(parameters, DRAWN), color=color, lw=1)
            accuracies = [100 * r["sst"]["mean"]["all_units"]["test_accuracy"] for r in same]
            right.plot(bits, accuracies, "o", color=color)
        shipped = read_json(LONG_RUN)["bits_per_character"]
        left.plot([long_characters()], [shipped], "k*", label=f"{PLAIN}, on test, not in the fit")
        left.set(xscale="log", xlabel="characters read", ylabel="bits per character, on valid")
        right.set(xlabel="valid, bits per character", ylabel="SST, mean state, per cent")
        right.invert_xaxis()
        left.legend(frameon=False)


if __name__ == "__main__":
    command.run_plain(main, __doc__)
