"""Make the tables of README.md."""

from collections.abc import Mapping
from typing import Any

from experiments.results import read_result
from experiments.scaling.measuring import report
from experiments.tables import markdown, origins

PLANS = {
    "dgx1v_infiniband": "16 DGX-1V, InfiniBand as observed in 2018",
    "dgx1v_ethernet": "16 DGX-1V, 10 Gb/s Ethernet",
    "h200": "8 H200",
    "h200_nodes": "16 nodes of 8 H200, InfiniBand",
    "mixed_lab": "a mixed lab",
}


def points() -> str:
    """Return the published speeds and the model's."""
    return points_of(read_result("scaling", "published"))


def points_of(result: Mapping[str, Any]) -> str:
    """Return the published speeds and those of a fitted model."""
    rows = []
    for name, published in result["published"].items():
        both = zip(published, result["predicted"][name], strict=True)
        rows.append([words(name), *(f"{theirs:g} / {ours:.1f}" for theirs, ours in both)])
    return markdown(["published / model", *map(str, result["gpus"])], rows)


def quality() -> str:
    """Return how well the model fits the published speeds."""
    return quality_of(read_result("scaling", "published"))


def quality_of(result: Mapping[str, Any]) -> str:
    """Return how well a model fits the published speeds."""
    return (
        f"{result['fitted_parameters']} fitted parameters, worst error "
        f"{result['worst_error']:.1%}, rms {result['rms_error']:.1%}"
    )


def parameters() -> str:
    """Return the fitted parameters with their deviations."""
    result = read_result("scaling", "published")
    kinds = ("parameters", "deviations", "deviations_by_reading")
    rows = [
        [words(name), *(report.quantity(name, result[kind][name]) for kind in kinds)]
        for name in result["parameters"]
    ]
    return markdown(["fitted", "value", "+-, by the errors", "+-, by the reading"], rows)


def answer() -> str:
    """Say which constants are enough, and what each model is for."""
    result = read_result("scaling", "published")
    null, beyond = result["rivals"][0], result["extrapolation"]
    return f"""\
**Answer.** Four constants without any physics, an efficiency for one node and one for each curve. They fit all fifteen published points within
{null["worst_by_minimax"]:.2%}, if the worst error is made least (by least squares within {null["worst"]:.1%}, rms {null["rms"]:.2%}). As many constants with physics, three bandwidths and one
overhead, fit them within {result["worst_by_minimax"]:.2%} ({result["worst_error"]:.1%}, rms {result["rms_error"]:.2%}). Fitted to 8 to 32 GPUs alone, both predict 64 and 128: within {beyond["null"]["worst_beyond"]:.1%} and {beyond["worst_beyond"]:.1%}.
So the points are no evidence for bandwidths. The performance model is for what the null model cannot say: what another cluster would do. The size of the model matters little."""  # noqa: E501


def beyond() -> str:
    """Return the errors at more GPUs than those that each model was fitted on."""
    result = read_result("scaling", "published")
    short = result["extrapolation"]
    fitted_on, null = short["fitted_on"], short["null"]["errors_beyond"]
    rows = [
        [words(name), *(f"{error:+.1%}" for error in (*errors, *null[name]))]
        for name, errors in short["errors_beyond"].items()
    ]
    others = [str(count) for count in result["gpus"] if count not in fitted_on]
    others += [f"null model: {count}" for count in others]
    return markdown([f"fitted on {', '.join(map(str, fitted_on))} GPUs: error at", *others], rows)


def size() -> str:
    """Say how much of the gain of the larger model its size explains."""
    alone = read_result("scaling", "published")["size_alone"]
    return (
        f"At 128 GPUs, the published speed relative to one GPU is "
        f"{alone['published_gain_at_128']:.1f} higher for 8,192 units than for 4,096. With the "
        f"same network, the larger model explains {alone['gain_by_size_at_128']:.1f} of this "
        f"({alone['part_explained']:.0%}), all through the overhead. To explain the rest, the "
        f"network would need {alone['bandwidth_needed_over_that_of_4096']:.1f} times the bandwidth."
    )


def constants() -> str:
    """Return the fit with other constants than the declared ones."""
    result = read_result("scaling", "published")
    names = list(result["parameters"])
    rows = [
        [
            row["constant"],
            f"{row['worst']:.1%}",
            *(report.quantity(name, row[name]) for name in names),
        ]
        for row in result["sensitivity"]
    ]
    return markdown(["constant", "worst error", *map(words, names)], rows)


def rivals() -> str:
    """Return the fits of other models."""
    rows = [
        [
            row["name"],
            str(row["fitted"]),
            str(row["chosen_for_a_curve"]),
            f"{row['worst']:.1%}",
            f"{row['rms']:.2%}" if "rms" in row else "",
            row.get("note", ""),
        ]
        for row in read_result("scaling", "published")["rivals"]
    ]
    return markdown(["model", "fitted", "chosen for a curve", "worst error", "rms", ""], rows)


def plans() -> str:
    """Return the planner's estimates for some clusters."""
    rows = []
    results = {name: read_result("scaling", f"plan_{name}") for name in PLANS}
    for name, title in PLANS.items():
        plan = results[name]
        memory = ", ".join(
            f"{group['memory_bytes'] / 1e9:.1f} of {group['available_bytes'] / 1e9:.1f}"
            for group in plan["groups"]
        )
        rows.append([
            title,
            str(plan["gpus"]),
            f"{plan['step_seconds']:.3f} s",
            f"{plan['efficiency']:.1%}",
            f"{plan['hours']:.1f}",
            f"{plan['gpu_hours']:,.0f}",
            f"{memory} GB",
            f"{plan['largest_lanes']:,}",
        ])  # fmt: skip
    head = ["cluster", "GPUs", "step", "efficiency", "hours", "GPU hours", "memory of a GPU"]
    return f"{markdown([*head, 'largest batch, lanes'], rows)}\n\n{origins(results)}"


def measured_gloo() -> str:
    """Return how well the model fits a sweep on this machine."""
    result = read_result("scaling", "measured_gloo")
    return f"{report.tables(result)}\n\n{origins({'measured_gloo': result})}"


def words(name: str) -> str:
    """Return the name of a curve or a parameter in words."""
    return name.replace("_bytes_per_second", "").replace("_seconds", "").replace("_", " ")
