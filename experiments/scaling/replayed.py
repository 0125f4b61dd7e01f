"""Hold the step-time model against the exchange replayed over real links, with nothing fitted.

python -m experiments.scaling.replayed --output experiments/scaling/results/replayed.json
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.tables import markdown
from model.files.storage import read_json, write_json
from scaling.planner import FLAT, OVERLAPPED
from scaling.step_time import exposed_seconds, ring_seconds

from .tables import keep_tables

MEASURED = Path(__file__).resolve().parent.parent / "exchange" / "results" / "replay.json"
GOODPUT = 0.95  # of a link's rate that TCP's payload gets, declared
KEYS = ("exposed_measured", "exposed_predicted")
MODELLED = ("one by one", "together")  # how the gradients come: the third is as the second


@dataclass(frozen=True, kw_only=True)
class Options:
    """Foretell the seconds of experiments/exchange's replay."""

    measured: Path = MEASURED
    """What experiments.exchange.replay wrote."""
    output: Path | None = None
    """JSON file for the result."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    rows = compare(read_json(options.measured))
    print(table(rows))
    if options.output is not None:
        origin = describe_origin()
        write_json(options.output, {"rows": rows, "goodput": GOODPUT, "origin": origin})
        keep_tables(options.output, table(rows))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return measured and predicted seconds side by side."""
    cells = [
        [row["profile"], row["way"], *(f"{row[key]:.3f}" for key in KEYS), f"{row['error']:+.1%}"]
        for row in rows
    ]
    words = [key.replace("exposed_", "exposed seconds, ") for key in KEYS]
    return markdown(["gradients ready", "exchange", *words, "error of the step"], cells)


def compare(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Return measured and predicted exposed seconds, and the error of the whole step.

    PowerSGD is left out: its seconds there are those of products on a CPU.
    """
    settings = measured["settings"]
    ranks, computing = int(settings["ranks"]), float(settings["seconds"])
    rate = bytes_per_second(settings["rate"]) * GOODPUT
    rows = []
    for row in measured["rows"]:
        if row["profile"] not in MODELLED or "PowerSGD" in row["way"]:
            continue
        size = row["sent_bytes"] / ring_seconds(1.0, ranks, 1.0)  # of the gradients
        whole = "flat" in row["way"] or row["profile"] == "together"
        how = FLAT if whole else OVERLAPPED
        exposed = exposed_seconds(ring_seconds(size, ranks, rate), computing, how)
        rows.append(
            {
                "profile": row["profile"],
                "way": row["way"],
                "exposed_measured": row["exposed_seconds"],
                "exposed_predicted": exposed,
                "error": (computing + exposed) / (computing + row["exposed_seconds"]) - 1,
            }
        )
    return rows


def bytes_per_second(rate: str) -> float:
    """Return a rate as tc writes it (`100mbit`) in bytes per second."""
    return float(rate.removesuffix("mbit")) * 1e6 / 8


if __name__ == "__main__":
    command.run(main)
