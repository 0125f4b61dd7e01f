"""Fit the performance model to the published scaling, and vary each declared constant."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from experiments.scaling.least_squares import Fit, Values, fit
from scaling.step_time import Fabric, Ring, Synchronisation, step_time

from . import puri

Curves = dict[str, list[float]]
EXTRAPOLATED_FROM = 3  # points of each curve: 8, 16 and 32 GPUs

ETHERNET, SMALL_FABRIC, LARGE_FABRIC, OVERHEAD = (
    "ethernet_bytes_per_second",
    "infiniband_bytes_per_second_4096",
    "infiniband_bytes_per_second_8192",
    "overhead_seconds",
)
AS_IN_2018 = Synchronisation()  # one piece in fp16 after backward, as their code has it
STARTS = {ETHERNET: 1e9, SMALL_FABRIC: 3e9, LARGE_FABRIC: 1e10, OVERHEAD: 0.02}
EFFICIENCIES = dict.fromkeys(("one_node", *puri.SCALING), 0.9)  # where the null model's fit starts


@dataclass(frozen=True)
class Constants:
    """The declared constants, the same for all curves; `sensitivity` varies each of them."""

    computing_seconds: float = puri.COMPUTING_SECONDS
    """Seconds of computing in a step at 4,096 units."""
    large_over_small: float = puri.LARGE_OVER_SMALL
    """Computing at 8,192 units over that at 4,096."""
    link_bytes_per_second: float = puri.NVLINK
    ring: Ring = "gpus"
    how: Synchronisation = AS_IN_2018


def curve(
    size: int,
    constants: Constants,
    network: float,
    overhead: float,
    *,
    latency: float = 0.0,
    jitter: float = 0.0,
) -> list[float]:
    """Return the scaling of a published model at 8 to 128 GPUs over a network of this bandwidth."""
    factor = constants.large_over_small if size == 8192 else 1.0
    fabric = Fabric(
        gpus_per_node=puri.GPUS_PER_NODE,
        link_bytes_per_second=constants.link_bytes_per_second,
        network_bytes_per_second=network,
        latency_seconds=latency,
        ring=constants.ring,
    )
    computing, parameters = constants.computing_seconds * factor, puri.workload(size).parameters
    costs = {"overhead": overhead, "jitter": jitter}
    return [
        p * step_time(computing, parameters, p, fabric, constants.how, **costs).efficiency
        for p in puri.GPUS
    ]


def predict(values: Values, constants: Constants, **costs: float) -> Curves:
    """Return all curves: a bandwidth for each network as each model saw it, one overhead.

    costs: a latency or a jitter, the same for all.
    """
    bandwidths = (values[ETHERNET], values[SMALL_FABRIC], values[LARGE_FABRIC])
    return {
        name: curve(size, constants, network, values[OVERHEAD], **costs)
        for (name, size), network in zip(puri.SIZES.items(), bandwidths, strict=True)
    }


Predict = Callable[[Values], Curves]


def fit_curves(
    predicting: Predict,
    starts: Values,
    *,
    names: Sequence[str] = tuple(puri.SCALING),
    points: int | None = None,
    minimax: bool = False,
) -> Fit:
    """Fit the first `points` of the named curves; absent, all of them."""
    observed = chain.from_iterable(puri.SCALING[name][:points] for name in names)

    def flat(values: Values) -> list[float]:
        curves = predicting(values)
        return list(chain.from_iterable(curves[name][:points] for name in names))

    return fit(flat, list(observed), starts, minimax=minimax)


def fit_model(
    constants: Constants | None = None, points: int | None = None, *, minimax: bool = False
) -> Fit:
    """Fit the model with its four parameters."""
    declared = constants or Constants()
    predicting = partial(predict, constants=declared)
    return fit_curves(predicting, STARTS, points=points, minimax=minimax)


def errors_of(curves: Mapping[str, Sequence[float]]) -> Curves:
    """Return predicted / published - 1 for every point."""
    return {
        name: [p / o - 1 for p, o in zip(predicted, puri.SCALING[name], strict=True)]
        for name, predicted in curves.items()
    }


def reading_deviations() -> np.ndarray:
    """Return the relative reading errors of the points, in the order of the fit."""
    return puri.READING_ERROR / np.array(list(chain(*puri.SCALING.values())))


def without_physics(values: Values) -> Curves:
    """Return all curves of the null model: an efficiency for one node, one for each curve."""
    return {
        name: [count * values["one_node" if count == 8 else name] for count in puri.GPUS]
        for name in puri.SCALING
    }


def extrapolation() -> dict[str, Any]:
    """Fit to 8, 16 and 32 GPUs; return the errors at 64 and 128, also those of the null model."""
    return {
        "fitted_on": list(puri.GPUS[:EXTRAPOLATED_FROM]),
        **_extrapolated(partial(predict, constants=Constants()), STARTS),
        "null": _extrapolated(without_physics, EFFICIENCIES),
    }


def _extrapolated(predicting: Predict, starts: Values) -> dict[str, Any]:
    short = fit_curves(predicting, starts, points=EXTRAPOLATED_FROM)
    curves = predicting(short.values)
    beyond = {name: errors[EXTRAPOLATED_FROM:] for name, errors in errors_of(curves).items()}
    return {
        "parameters": short.values,
        "predicted": curves,
        "errors_beyond": beyond,
        "worst_beyond": max(abs(error) for error in chain(*beyond.values())),
    }


def sensitivity() -> list[dict[str, Any]]:
    """Change one declared constant at a time and fit again; return errors and parameters."""
    base = Constants()
    changed: dict[str, Constants] = {"as declared": base}
    for factor in (0.5, 2.0):
        link = base.link_bytes_per_second * factor
        changed[f"NVLink x {factor:g}"] = replace(base, link_bytes_per_second=link)
    for factor in (0.8, 1.25):
        seconds, ratio = base.computing_seconds * factor, base.large_over_small * factor
        changed[f"computing x {factor:g}"] = replace(base, computing_seconds=seconds)
        changed[f"8,192 over 4,096 units x {factor:g}"] = replace(base, large_over_small=ratio)
    by_figure = puri.computing_seconds(puri.HOURS_BY_FIGURE)
    changed |= {
        f"computing by their figure, {puri.HOURS_BY_FIGURE:g} h": replace(
            base, computing_seconds=by_figure
        ),
        "gradients in fp32": replace(base, how=Synchronisation(bytes_per_parameter=4)),
        "a ring of nodes": replace(base, ring="nodes"),
        "a tenth of computing overlapped, 5 chunks": replace(
            base, how=Synchronisation(chunks=5, overlap=0.1)
        ),
    }
    rows = []
    for name, constants in changed.items():
        fitted = fit_model(constants)
        rows.append({"constant": name, "worst": fitted.worst, "rms": fitted.rms, **fitted.values})
    return rows


def size_alone(values: Values) -> dict[str, Any]:
    """Return how 8,192 units would scale over the network of 4,096, and what that explains.

    With S = b P bytes and 6 P n operations, the number of parameters P cancels from the ratio of
    exchange to computing. Only the overhead, the same in a window of both, weighs less on the large
    model.
    """
    constants = Constants()
    large = curve(8192, constants, values[SMALL_FABRIC], values[OVERHEAD])
    small = curve(4096, constants, values[SMALL_FABRIC], values[OVERHEAD])
    published = puri.SCALING[puri.LARGE][-1] - puri.SCALING[puri.SMALL][-1]
    without = [curve(size, constants, values[SMALL_FABRIC], 0.0)[-1] for size in (4096, 8192)]
    operations = puri.workload(4096).operations_per_token * puri.TOKENS_PER_GPU
    rate = operations / constants.computing_seconds
    return {
        "infiniband_8192_over_the_fabric_of_4096": large,
        "published_gain_at_128": published,
        "gain_by_size_at_128": large[-1] - small[-1],
        "part_explained": (large[-1] - small[-1]) / published,
        "scaling_at_128_without_overhead": dict(zip(("4096", "8192"), without, strict=True)),
        "bandwidth_needed_over_that_of_4096": values[LARGE_FABRIC] / values[SMALL_FABRIC],
        "sustained_operations_per_second": rate,
        "tokens_per_gpu_for_90_percent": {
            name: tokens_for(0.9, rate, values[name])
            for name in (ETHERNET, SMALL_FABRIC, LARGE_FABRIC)
        },
    }


def tokens_for(
    efficiency: float, operations_per_second: float, bytes_per_second: float, bytes_each: float = 2
) -> float:
    """Return the fewest tokens per GPU and step that allow an efficiency.

    For many GPUs, no overlap and no overhead: n >= b F e / (3 B (1 - e)). With 6 operations and b
    bytes a parameter the number of parameters cancels.
    """
    ratio = efficiency / (1 - efficiency)
    return bytes_each * operations_per_second * ratio / (3 * bytes_per_second)
