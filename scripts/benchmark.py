"""Measure the speed of the recurrence, of a training step, or of work next to busy processes.

python scripts/benchmark.py recurrence --hidden-size 512 --batch 128 --window 256 --dtype fp32
python scripts/benchmark.py step --hidden-size 1024 --parts
python scripts/benchmark.py busy --output busy.json
"""

from collections.abc import Callable
from typing import Any

import command

from experiments.speed.benchmark.busy import BusyOptions, measure_busy
from experiments.speed.benchmark.recurrence import RecurrenceOptions, measure_recurrence
from experiments.speed.benchmark.step import StepOptions, measure_step

KINDS = {"recurrence": RecurrenceOptions, "step": StepOptions, "busy": BusyOptions}
MEASURES: dict[type, Callable[[Any], dict[str, Any]]] = {
    RecurrenceOptions: measure_recurrence,
    StepOptions: measure_step,
    BusyOptions: measure_busy,
}


def main() -> None:
    options = command.parse_one_of(KINDS, __doc__)
    command.prepare_output(options.output)
    result = MEASURES[type(options)](options)
    try:
        _print_speeds(result)
    finally:  # the reader of stdout may leave
        command.report(result, options.output, "a result")


def _print_speeds(result: dict[str, Any]) -> None:
    for name, speed in sorted(result["chars_per_second"].items(), key=lambda item: -item[1]):
        print(
            f"{name:<20} {speed:>12,.0f} characters per second, spread {result['spread'][name]:.0%}"
        )
    for name, value in result["ratios"].items():
        low, high = result["ratio_ranges"][name]
        print(f"{name:<24} {value:8.2f}   ({low:.2f} to {high:.2f})")
    for name, value in result.get("unit_gigaflops", {}).items():
        print(f"{name:<24} {value:8,.0f} GFLOP per CPU second of {result['unit']}")
    if "parts" in result:
        fractions = result["parts"]["share"]
        for name, value in result["parts"]["milliseconds"].items():
            print(f"{name:<24} {value:8.1f} ms {fractions.get(name, 1.0):7.1%}")


if __name__ == "__main__":
    command.run(main)
