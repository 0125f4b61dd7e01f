"""Make the tables of published.json and of the planner."""

from collections.abc import Callable
from typing import Any

from experiments.tables import markdown, read_result, table_of

CLUSTERS = ("dgx1v_infiniband", "dgx1v_ethernet", "h200", "h200_nodes", "mixed_lab")
UNITS = {
    "bytes_per_second": (1e9, "GB/s"),
    "operations_per_second": (1e12, "TFLOP/s"),
    "seconds": (1e-3, "ms"),
}


def of_published(part: str) -> str:
    """Return a table of published.json, by the name of the function that makes it."""
    return PARTS[part](read_result("scaling", "published"))


def tables(result: dict[str, Any]) -> str:
    """Return all tables of published.json."""
    return "\n\n".join(part(result) for part in PARTS.values())


def quality(result: dict[str, Any]) -> str:
    """Describe how well the model fits."""
    return (
        f"{result['fitted_parameters']} fitted parameters, worst error {result['worst_error']:.1%},"
        f" rms {result['rms_error']:.1%}"
    )


def points(result: dict[str, Any]) -> str:
    """Return the published points beside the model's."""
    rows = []
    for name, predicted in result["predicted"].items():
        pairs = zip(result["published"][name], predicted, strict=True)
        rows.append([words(name), *(f"{point:g} / {ours:.1f}" for point, ours in pairs)])
    return markdown(["published / model", *map(str, result["gpus"])], rows)


def parameters(result: dict[str, Any], by: str = "reading") -> str:
    """Return the fitted values with their deviations: from the errors, and by another measure."""
    rows = [
        [
            words(name),
            quantity(name, value),
            deviation(name, result["deviations"][name]),
            deviation(name, result[f"deviations_by_{by}"][name]),
        ]
        for name, value in result["parameters"].items()
    ]
    return markdown(["fitted", "value", "+-, by the errors", f"+-, by the {by}"], rows)


def deviation(name: str, value: float) -> str:
    """Return the deviation of a parameter; it is zero where the parameter lies at its bound."""
    return quantity(name, value) if value else "at its bound"


def beyond(result: dict[str, Any]) -> str:
    """Return the errors at 64 and 128 GPUs of the fit on 8 to 32."""
    errors = result["extrapolation"]["errors_beyond"]
    rows = [[words(name), *(f"{error:+.1%}" for error in row)] for name, row in errors.items()]
    return markdown(["fitted on 8, 16, 32 GPUs: error at", "64", "128"], rows)


def constants(result: dict[str, Any]) -> str:
    """Return the fit after each change of a declared constant."""
    names = list(result["parameters"])
    rows = [
        [row["constant"], f"{row['worst']:.1%}", *(quantity(name, row[name]) for name in names)]
        for row in result["sensitivity"]
    ]
    return markdown(["constant", "worst error", *map(words, names)], rows)


def rivals(result: dict[str, Any]) -> str:
    """Return the other models."""
    rows = [
        {
            "model": row["name"],
            "fitted": str(row["fitted"]),
            "chosen for a curve": str(row["chosen_for_a_curve"]),
            "worst error": f"{row['worst']:.1%}",
            "": row["note"],
        }
        for row in result["rivals"]
    ]
    return table_of(rows)


def size(result: dict[str, Any]) -> str:
    """Describe how much of the large model's scaling its size explains."""
    facts = result["size_alone"]
    return (
        f"At 128 GPUs the figure has {facts['published_gain_at_128']:.1f} GPUs more for 8,192 units"
        " than for 4,096. With the same network, the larger size explains"
        f" {facts['gain_by_size_at_128']:.1f} of these ({facts['part_explained']:.0%}), all through"
        " the overhead. Explaining the rest takes"
        f" {facts['bandwidth_needed_over_that_of_4096']:.1f} times the bandwidth."
    )


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    part.__name__: part for part in (points, quality, parameters, beyond, constants, rivals, size)
}


def plans() -> str:
    """Return the planner's answer for each cluster."""
    found = (read_result("scaling", f"plan_{name}") for name in CLUSTERS)
    return table_of([plan(result) for result in found])


def plan(result: dict[str, Any]) -> dict[str, str]:
    """Return the row of a cluster."""
    fitting = ", ".join(
        f"{group['memory_bytes'] / 1e9:.1f} of {group['available_bytes'] / 1e9:.1f}"
        for group in result["groups"]
    )
    return {
        "cluster": result["cluster"],
        "GPUs": str(result["gpus"]),
        "step": f"{result['step_seconds']:.3f} s",
        "efficiency": f"{result['efficiency']:.1%}",
        "hours": f"{result['hours']:.1f}",
        "GPU hours": f"{result['gpu_hours']:,.0f}",
        "memory of a GPU": f"{fitting} GB",
        "largest batch, lanes": f"{result['largest_lanes']:,}",
    }


def words(name: str) -> str:
    """Return a key as words."""
    return name.replace("_bytes_per_second", "").replace("_seconds", "").replace("_", " ")


def quantity(name: str, value: float) -> str:
    """Return a value in a readable unit."""
    for ending, (scale, unit) in UNITS.items():
        if ending in name:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g}"
