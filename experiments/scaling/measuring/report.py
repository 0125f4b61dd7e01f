"""Compare the fitted model with a measured sweep: a result and its tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.scaling.least_squares import Fit
from experiments.tables import markdown

from .explanation import Observation, SweepModel

ONLY_A_CHECK = (
    "Ranks on CPUs share their cores, memory and links: this shows that the harness works, and "
    "nothing about the speed of a cluster."
)

UNITS = {
    "bytes_per_second": (1e9, "GB/s"),
    "operations_per_second": (1e12, "TFLOP/s"),
    "seconds": (1e-3, "ms"),
}


def describe(model: SweepModel, fitted: Fit, measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the parameters and the errors at all points; measured: the content of their files."""
    reading = np.array([o.reading() for o in model.observations if o.fitted])
    environments = [repeat["environment"] for result in measured for repeat in result["repeats"]]
    devices = sorted({environment["device"] for environment in environments})
    return {
        "parameters": model.parameters(fitted),
        "deviations": model.deviations(fitted),
        "deviations_by_repeats": model.deviations(fitted, reading),
        "fitted_points": len(fitted.errors),
        "worst_error": fitted.worst,
        "rms_error": fitted.rms,
        "points": [row(model, fitted, o) for o in model.observations],
        "devices": devices,
        "only_a_check_of_the_harness": devices == ["cpu"],
        "settings": measured[0]["settings"],
    }


def row(model: SweepModel, fitted: Fit, o: Observation) -> dict[str, Any]:
    """Return the seconds of a window and the scaling of a point, measured and predicted."""
    alone = model.base(o)
    step, one = (model.step(fitted.values, observation) for observation in (o, alone))
    return {
        "name": o.point.name,
        "ranks": o.point.world,
        "fitted": o.fitted,
        "seconds": o.seconds,
        "low": o.low,
        "high": o.high,
        "predicted": step.seconds,
        "error": step.seconds / o.seconds - 1,
        "exposed": o.exposed,
        "exposed_predicted": step.exposed,
        "scaling": o.point.world * alone.seconds / o.seconds,
        "scaling_predicted": o.point.world * one.seconds / step.seconds,
    }


def tables(result: dict[str, Any]) -> str:
    """Return parameters and residuals in Markdown."""
    worst = (
        f"{len(result['parameters'])} parameters fitted to {result['fitted_points']} points, worst "
        f"error {result['worst_error']:.1%}, rms {result['rms_error']:.1%}"
    )
    warning = [ONLY_A_CHECK] * result["only_a_check_of_the_harness"]
    return "\n\n".join([residuals(result["points"]), worst, parameters(result), *warning])


def residuals(points: Sequence[dict[str, Any]]) -> str:
    """Return the measured and predicted seconds of every point, and the error."""
    head = ["point", "window, ms", "quartiles", "model", "error", "exposed, ms", "model"]
    rows = []
    for point in points:
        milliseconds = {
            name: f"{point[name] * 1e3:.3g}"
            for name in ("seconds", "low", "high", "predicted", "exposed", "exposed_predicted")
        }
        quartiles = f"{milliseconds['low']} to {milliseconds['high']}"
        error = f"{point['error']:+.1%}" if point["fitted"] else f"({point['error']:+.1%})"
        exposed = [milliseconds["exposed"], milliseconds["exposed_predicted"]]
        measured = [milliseconds["seconds"], quartiles, milliseconds["predicted"]]
        scaling = [f"{point['scaling']:.2f}", f"{point['scaling_predicted']:.2f}"]
        rows.append([point["name"], *measured, error, *exposed, *scaling])
    return markdown([*head, "ranks' worth", "model"], rows)


def parameters(result: dict[str, Any]) -> str:
    """Return the fitted values with their deviations: by the errors, and by the repeats."""
    rows = []
    for name, value in result["parameters"].items():
        words = name.replace("_bytes_per_second", "").replace("_seconds", "").replace("_", " ")
        deviations = (result[key][name] for key in ("deviations", "deviations_by_repeats"))
        # A parameter that changes none of the predictions has no deviation.
        cells = (quantity(name, each) if each else "not determined" for each in deviations)
        rows.append([words, quantity(name, value), *cells])
    return markdown(["fitted", "value", "+-, by the errors", "+-, by the repeats"], rows)


def quantity(name: str, value: float) -> str:
    """Return a value in a readable unit."""
    for ending, (scale, unit) in UNITS.items():
        if ending in name:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g}"
