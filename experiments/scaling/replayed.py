"""Compare the step-time model with the exchange replayed over real links; nothing is fitted.

python -m experiments.scaling.replayed --output experiments/scaling/results/replayed.json
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.tables import markdown, read_result
from model.files.storage import write_json
from scaling.planning import FLAT, OVERLAPPED
from scaling.step_time import exposed_seconds, ring_seconds

GOODPUT = 0.95  # part of a link's rate that carries TCP's payload; declared, not fitted
KEYS = ("exposed_measured", "exposed_predicted")
PROFILES = ("one by one", "together")  # "per byte" would be predicted as "together" is


@dataclass(frozen=True, kw_only=True)
class Options:
    """Predict the exposed seconds that experiments/exchange measured."""

    output: Path | None = None
    """JSON file for the result."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    result = {
        "rows": compare(read_result("exchange", "replay")),
        "goodput": GOODPUT,
        "origin": describe_origin(),
    }
    print(tables(result))
    if options.output is not None:
        write_json(options.output, result)


def tables(result: Mapping[str, Any]) -> str:
    """Return measured and predicted seconds side by side."""
    cells = [
        [row["profile"], row["way"], *(f"{row[key]:.3f}" for key in KEYS), f"{row['error']:+.1%}"]
        for row in result["rows"]
    ]
    words = [key.replace("exposed_", "exposed seconds, ") for key in KEYS]
    return markdown(["gradients ready", "exchange", *words, "error of the step"], cells)


def compare(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Return exposed seconds, measured and predicted, and the error of the whole step as timed.

    PowerSGD is left out: its own matrix products took most of its seconds on that CPU.
    """
    settings = measured["settings"]
    ranks, computing = int(settings["ranks"]), float(settings["seconds"])
    bits_per_second = float(settings["rate"].removesuffix("mbit")) * 1e6  # as tc writes a rate
    rate = bits_per_second / 8 * GOODPUT
    rows = []
    for row in measured["rows"]:
        if row["profile"] not in PROFILES or "PowerSGD" in row["way"]:
            continue
        size = row["sent_bytes"] / ring_seconds(1.0, ranks, 1.0)  # of the gradients, bytes
        whole = "flat" in row["way"] or row["profile"] == "together"
        how = FLAT if whole else OVERLAPPED
        exposed = exposed_seconds(ring_seconds(size, ranks, rate), computing, how)
        rows.append(
            {
                "profile": row["profile"],
                "way": row["way"],
                "exposed_measured": row["exposed_seconds"],
                "exposed_predicted": exposed,
                "error": (computing + exposed) / row["seconds"] - 1,
            }
        )
    return rows


if __name__ == "__main__":
    command.run(main)
