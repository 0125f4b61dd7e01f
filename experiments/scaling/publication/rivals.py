"""Fit other models to the published scaling."""

from dataclasses import replace
from typing import Any

from experiments.scaling.least_squares import Fit, Values

from . import puri
from .explanation import (
    EFFICIENCIES,
    LARGE_FABRIC,
    OVERHEAD,
    SMALL_FABRIC,
    STARTS,
    Constants,
    Curves,
    curve,
    errors_of,
    fit_curves,
    fit_model,
    predict,
    without_physics,
)

FOUR_UNITS = ("ethernet_4096", "infiniband_4096")
EDR = 12.5e9  # bytes per second of one InfiniBand EDR port, 100 Gb/s; a DGX-1V has four
LARGE_SECONDS = "computing_seconds_8192"
BASE = Constants()
ONE_FABRIC = {name: start for name, start in STARTS.items() if name != LARGE_FABRIC}


def rivals() -> list[dict[str, Any]]:
    """Return the fit of each other model."""
    return [
        null_model(),
        nothing_fitted("their text", puri.HOURS_BY_TEXT),
        nothing_fitted("their figure", puri.HOURS_BY_FIGURE),
        described(
            "4,096 units alone: two bandwidths, one overhead",
            fit_curves(one_fabric, ONE_FABRIC, names=FOUR_UNITS),
            "10 points",
        ),
        *(latency_of_the_large(ports) for ports in (1, 2)),
        described("one InfiniBand for both sizes", fit_curves(one_fabric, ONE_FABRIC)),
        one_fabric_slow_large(),
        described(
            "a latency for all curves", fit_with("latency", 0.001), "the fit sets it to zero"
        ),
        with_stragglers(),
    ]


def described(
    name: str, fitted: Fit, note: str = "", *, chosen: int = 0, **facts: Any
) -> dict[str, Any]:
    """Return a row; chosen: the number of constants declared for a single curve."""
    return {
        "name": name,
        "fitted": len(fitted.values),
        "chosen_for_a_curve": chosen,
        "worst": fitted.worst,
        "rms": fitted.rms,
        "parameters": fitted.values,
        "note": note,
        **facts,
    }


def one_fabric(values: Values, constants: Constants = BASE) -> Curves:
    """Return all curves with one InfiniBand bandwidth."""
    return predict({**values, LARGE_FABRIC: values[SMALL_FABRIC]}, constants)


def nothing_fitted(source: str, hours: float) -> dict[str, Any]:
    """Predict Ethernet's curve from its wire rate, without any fitted parameter."""
    goodput = puri.ETHERNET_WIRE * puri.ETHERNET_GOODPUT
    constants = Constants(computing_seconds=puri.computing_seconds(hours))
    predicted = curve(4096, constants, goodput, 0.0)
    errors = errors_of({"ethernet_4096": predicted})["ethernet_4096"]
    return {
        "name": f"Ethernet from its wire rate, computing by {source}: {hours:g} h",
        "fitted": 0,
        "chosen_for_a_curve": 0,
        "worst": max(map(abs, errors)),
        "worst_of_several_nodes": max(map(abs, errors[1:])),
        "predicted": predicted,
        "note": f"no overhead: {', '.join(f'{value:.1f}' for value in predicted)}",
    }


def latency_of_the_large(ports: int) -> dict[str, Any]:
    """Give 8,192 units so many EDR ports, and their own latency for each doubling of nodes."""

    def predicting(values: Values) -> Curves:
        curves = predict({**values, LARGE_FABRIC: ports * EDR}, BASE)
        own = curve(8192, BASE, ports * EDR, values[OVERHEAD], latency=values["latency"])
        return {**curves, puri.LARGE: own}

    name = f"8,192 units over {ports} x EDR, with a latency of their own"
    return described(name, fit_curves(predicting, {**ONE_FABRIC, "latency": 0.01}), chosen=1)


def one_fabric_slow_large() -> dict[str, Any]:
    """Use one InfiniBand bandwidth, and a speed of computing of their own for 8,192 units."""

    def predicting(values: Values) -> Curves:
        ratio = values[LARGE_SECONDS] / BASE.computing_seconds
        return one_fabric(values, replace(BASE, large_over_small=ratio))

    fitted = fit_curves(predicting, {**ONE_FABRIC, LARGE_SECONDS: 3.0})
    operations = puri.workload(8192).operations_per_token * puri.TOKENS_PER_GPU
    rate = operations / fitted.values[LARGE_SECONDS]
    note = f"8,192 units would compute at {rate / 1e12:.1f} TFLOP/s, a quarter of 4,096's: rejected"
    name = "one InfiniBand, the computing of 8,192 units fitted"
    return described(name, fitted, note, sustained_operations_per_second=rate)


def fit_with(cost: str, start: float) -> Fit:
    """Fit a further cost, which is the same for all curves: a latency or a jitter."""
    starts = {**STARTS, cost: start}
    return fit_curves(lambda values: predict(values, BASE, **{cost: values[cost]}), starts)


def null_model() -> dict[str, Any]:
    """Fit an efficiency for one node, and one for each curve over several nodes; nothing else."""
    note = "the null model: no bandwidth, no bytes, no computing time"
    return described(
        "an efficiency for one node, one for each curve",
        fit_curves(without_physics, EFFICIENCIES),
        note,
        worst_by_minimax=fit_curves(without_physics, EFFICIENCIES, minimax=True).worst,
    )


def with_stragglers() -> dict[str, Any]:
    """Add a fifth parameter, the jitter of a GPU, which the points do not determine."""
    fitted = fit_with("jitter", 0.005)
    deviation = fitted.deviations()
    return described(
        "with stragglers",
        fitted,
        "not identifiable: it acts like the overhead",
        jitter_deviation=deviation["jitter"],
        overhead_deviation=deviation[OVERHEAD],
        overhead_deviation_without=fit_model().deviations()[OVERHEAD],
        correlation_with_overhead=fitted.correlation("jitter", OVERHEAD),
    )
