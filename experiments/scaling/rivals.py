"""Fit other models to the published scaling."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scaling.fitting.least_squares import Fit, Values

from . import readings
from .explanation import (
    ETHERNET,
    LARGE_FABRIC,
    OVERHEAD,
    SMALL_FABRIC,
    STARTS,
    Constants,
    Curves,
    Predict,
    curve,
    errors_of,
    fit_curves,
    fit_model,
    predict,
)

FOUR_UNITS = ("ethernet_4096", "infiniband_4096")
EDR = 12.5e9  # bytes per second of one InfiniBand EDR port, 100 Gb/s; a DGX-1V has four
LARGE_SECONDS = "computing_seconds_8192"


def rivals() -> list[dict[str, Any]]:
    """Return the fit of each other model."""
    return [
        nothing_fitted("their text", readings.HOURS_BY_TEXT),
        nothing_fitted("their figure", readings.HOURS_BY_FIGURE),
        described("4,096 units alone: two bandwidths, one overhead", 0, *small_only()),
        *(latency_of_the_large(ports) for ports in (1, 2)),
        one_fabric(),
        one_fabric_slow_large(),
        latency_of_all(),
        with_stragglers(),
    ]


def described(name: str, chosen: int, fitted: Fit, note: str = "", **facts: Any) -> dict[str, Any]:
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


def nothing_fitted(source: str, hours: float) -> dict[str, Any]:
    """Predict Ethernet's curve from its wire rate, without any fitted parameter."""
    goodput = readings.ETHERNET_WIRE * readings.ETHERNET_GOODPUT
    constants = Constants(computing_seconds=readings.computing_seconds(hours))
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


def small_only() -> tuple[Fit, str]:
    """Fit the two curves of 4,096 units."""
    starts = {name: STARTS[name] for name in (ETHERNET, SMALL_FABRIC, OVERHEAD)}
    fitted = fit_curves(_with(LARGE_FABRIC, EDR), starts, names=FOUR_UNITS)
    return fitted, "10 points"


def latency_of_the_large(ports: int) -> dict[str, Any]:
    """Give 8,192 units so many EDR ports, and their own latency for each doubling of nodes."""

    def predicting(values: Values) -> Curves:
        curves = predict({**values, LARGE_FABRIC: ports * EDR}, Constants())
        own = curve(8192, Constants(), ports * EDR, values[OVERHEAD], latency=values["latency"])
        return {**curves, readings.LARGE: own}

    starts = {**_without(STARTS, LARGE_FABRIC), "latency": 0.01}
    name = f"8,192 units over {ports} x EDR, with a latency of their own"
    return described(name, 1, fit_curves(predicting, starts))


def one_fabric() -> dict[str, Any]:
    """Use one InfiniBand bandwidth for both sizes."""
    fitted = fit_curves(_one_fabric(Constants()), _without(STARTS, LARGE_FABRIC))
    return described("one InfiniBand for both sizes", 0, fitted)


def one_fabric_slow_large() -> dict[str, Any]:
    """Use one InfiniBand bandwidth, and a speed of computing of their own for 8,192 units."""
    base = Constants()

    def predicting(values: Values) -> Curves:
        ratio = values[LARGE_SECONDS] / base.computing_seconds
        return _one_fabric(replace(base, large_over_small=ratio))(values)

    starts = {**_without(STARTS, LARGE_FABRIC), LARGE_SECONDS: 3.0}
    fitted = fit_curves(predicting, starts)
    operations = readings.workload(8192).operations_per_token * readings.TOKENS_PER_GPU
    rate = operations / fitted.values[LARGE_SECONDS]
    note = f"8,192 units would compute at {rate / 1e12:.1f} TFLOP/s, a quarter of 4,096's: rejected"
    return described(
        "one InfiniBand, the computing of 8,192 units fitted",
        0,
        fitted,
        note,
        sustained_operations_per_second=rate,
    )


def latency_of_all() -> dict[str, Any]:
    """Add a fifth parameter: a latency for each doubling of the nodes."""
    fitted = fit_curves(
        lambda values: predict(values, Constants(), latency=values["latency"]),
        {**STARTS, "latency": 0.001},
    )
    return described("a latency for all curves", 0, fitted, "it comes out at zero")


def with_stragglers() -> dict[str, Any]:
    """Add a fifth parameter, the jitter of a GPU, which the points do not determine."""
    fitted = fit_curves(
        lambda values: predict(values, Constants(), jitter=values["jitter"]),
        {**STARTS, "jitter": 0.005},
    )
    deviation, without = fitted.deviations(), fit_model()
    return described(
        "with stragglers",
        0,
        fitted,
        "not identifiable: it does what the overhead does",
        jitter_deviation=deviation["jitter"],
        overhead_deviation=deviation[OVERHEAD],
        overhead_deviation_without=without.deviations()[OVERHEAD],
        correlation_with_overhead=fitted.correlation("jitter", OVERHEAD),
    )


def _one_fabric(constants: Constants) -> Predict:
    def predicting(values: Values) -> Curves:
        return predict({**values, LARGE_FABRIC: values[SMALL_FABRIC]}, constants)

    return predicting


def _with(name: str, value: float) -> Predict:
    return lambda values: predict({**values, name: value}, Constants())


def _without(starts: Values, *names: Sequence[str] | str) -> dict[str, float]:
    return {name: start for name, start in starts.items() if name not in names}
