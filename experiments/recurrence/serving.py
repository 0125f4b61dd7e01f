"""Run a checkout's pieces of work, one for each line of the input; `turns.py` starts it there.

It knows where this project's benchmarks lay at any revision since 6df937c, and what they called.
"""

import gc
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, NoReturn

PLACES = ("scaling.benchmark", "experiments.recurrence")
SKIPPED = ("loop_2018", "reference", "nn_lstm")


def module(name: str) -> Any:
    """Import a module of the benchmark from wherever the checkout has it."""
    for place in PLACES:
        try:
            return importlib.import_module(f"{place}.{name}")
        except ModuleNotFoundError as error:
            if not f"{place}.{name}".startswith(str(error.name)):
                raise
    raise ModuleNotFoundError(f"this checkout has no benchmark {name}")


def serve(work: Mapping[str, Callable[[], object]], *_: object) -> NoReturn:
    """Take the place of `interleave`: print the names, then the seconds of each that is asked for.

    Every piece runs once before, and is not timed. Floors are left out: each revision has its own.
    """
    work = {name: piece for name, piece in work.items() if "floor" not in name}
    for piece in work.values():
        piece()
    gc.collect()
    gc.disable()
    print(json.dumps(list(work)), flush=True)
    for line in sys.stdin:
        started = perf_counter()
        work[line.strip()]()
        print(perf_counter() - started, flush=True)
    raise SystemExit


def main(piece: str, options: str) -> None:
    """Set up a measurement as the checkout does, with these options in JSON, and serve its work."""
    benchmark = module({"step": "step"}.get(piece, "measurement"))
    benchmark.interleave = serve
    given: dict[str, Any] = json.loads(options)
    if piece == "step":
        adam = benchmark.OptimConfig
        benchmark.OptimConfig = lambda **settings: adam(**(settings | {"name": "muon"}))
        benchmark.measure_step(benchmark.StepOptions(**given))
    benchmark.measure_recurrence(benchmark.RecurrenceOptions(**given, skip=SKIPPED))
