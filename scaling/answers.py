"""The planner's answers, as numbers for JSON and as lines for people."""

import math
from typing import Any

from .hardware import NodePool
from .planning import Offer, Plan
from .step_time import tokens_for

NINETY = 0.9


def answers(
    plan: Plan, *, bound: float, headroom: float, preemptions_per_day: float | None
) -> dict[str, Any]:
    """Return the planner's answers about a job on a cluster.

    bound: an efficiency. headroom: fraction of a GPU's memory to leave free. preemptions_per_day:
    of a node at the spot price, overriding the cluster's.
    """
    job, timing, step = plan.job, plan.timing, plan.timing.step
    node_hours = 24 / preemptions_per_day if preemptions_per_day else None
    return {
        "cluster": plan.cluster.name,
        "gpus": job.gpus,
        "hidden_size": job.model.hidden_size,
        "parameters": plan.workload.parameters,
        "lanes": round(job.lanes_per_gpu * job.gpus),
        "step_seconds": step.seconds * job.how.windows,
        "window": {**vars(step), "seconds": step.seconds},
        "efficiency": timing.efficiency,
        "characters_per_second": plan.characters_per_second,
        "steps": plan.steps,
        "hours": plan.seconds / 3600,
        "groups": [pool_answers(plan, pool, headroom) for pool in plan.pools],
        "largest_lanes": plan.largest_lanes(headroom),
        "efficiency_bound": bound,
        "most_gpus_looked_at": plan.most_looked_at,
        "most_gpus_with_these_lanes_each": plan.most_gpus(bound, whole_batch=False),
        "most_gpus_with_this_batch": plan.most_gpus(bound, whole_batch=True),
        "tokens_per_gpu": job.tokens_per_gpu,
        "tokens_per_gpu_for_90_percent": plan.tokens_for(NINETY),
        "lemma_tokens_for_90_percent": tokens_for_90_percent(plan),
        "on_demand": offer_answers(plan.offer(spot=False)),
        "spot": offer_answers(plan.offer(spot=True, node_hours=node_hours)),
        "prices_as_of": plan.cluster.prices_as_of,
    }


def pool_answers(plan: Plan, pool: NodePool, headroom: float) -> dict[str, Any]:
    """Return the lanes and the memory of GPUs of one kind."""
    lanes, node = plan.lanes_of(pool), pool.node
    needed = plan.memory.needed(lanes)
    return {
        "device": node.device,
        "gpus": pool.gpus,
        "lanes_per_gpu": lanes,
        "memory_bytes": needed.total,
        "memory": vars(needed),
        "available_bytes": node.memory_bytes,
        "fits": needed.total <= node.memory_bytes * (1 - headroom),
        "largest_lanes_per_gpu": plan.memory.largest_lanes(node.memory_bytes, headroom),
    }


def tokens_for_90_percent(plan: Plan) -> float | None:
    """Return n = b F e / (3 B (1 - e)), for many GPUs without overlap and overhead.

    F is the mean of the GPUs, which share the work by their speed; n is the mean, too. None if the
    job has only one node.
    """
    fabric = plan.cluster.fabric(plan.pools)
    if fabric.nodes(plan.job.gpus) == 1:
        return None
    rates = [pool.node.operations_per_second for pool in plan.pools]
    mean = sum(r * p.gpus for r, p in zip(rates, plan.pools, strict=True)) / plan.job.gpus
    how = plan.job.how
    size = how.bytes_per_parameter * plan.workload.parameters / how.chunks
    bandwidth = fabric.bandwidth_of_many(size)
    return tokens_for(NINETY, mean, bandwidth, how.bytes_per_parameter / how.windows)


def offer_answers(offer: Offer | None) -> dict[str, Any] | None:
    """Return an offer's numbers; those of a job that never ends are None."""
    if offer is None:
        return None
    stops = offer.interruptions
    ends = math.isfinite(offer.hours)
    return {
        "hours": offer.hours if ends else None,
        "dollars": offer.dollars if ends else None,
        "slowdown": stops.slowdown if ends else None,
        "hours_between_interruptions": stops.between / 3600,
        "expected_interruptions": offer.expected_interruptions if ends else None,
        "checkpoint_seconds": stops.checkpoint,
        "checkpoint_interval_seconds": stops.interval,
        "expected_loss_seconds": stops.expected_loss,
    }


def lines(result: dict[str, Any]) -> list[str]:
    """Return the answers as lines for people."""
    window, bound = result["window"], result["efficiency_bound"]
    said = [
        f"{result['gpus']} GPUs of {result['cluster']}, {result['lanes']:,} lanes",
        row("step", f"{result['step_seconds']:.3f} s; of a window: {parts(window)}"),
        row("efficiency", f"{result['efficiency']:.1%}"),
        row("speed", f"{result['characters_per_second']:,.0f} characters/s"),
        row("time", f"{result['hours']:.1f} h, {result['steps']:,.0f} steps"),
        *(row(group["device"], group_line(group)) for group in result["groups"]),
        row("largest batch", f"{result['largest_lanes']:,} lanes"),
        row(
            f"GPUs for {bound:.0%}",
            f"{count(result, 'these_lanes_each')} with these lanes each, "
            f"{count(result, 'this_batch')} with this batch in all",
        ),
        row("tokens for 90 %", tokens_line(result)),
        row("on demand", offer_line(result["on_demand"])),
        row("spot", offer_line(result["spot"])),
    ]
    return [*said, *regression_lines(result.get("regression"))]


def row(name: str, text: str) -> str:
    """Return a line that begins with its name."""
    return f"  {name:<18}{text}"


def parts(window: dict[str, float]) -> str:
    """Return the seconds of a window by what they are spent on."""
    named = (f"{name} {window[name]:.3f}" for name in window if name != "seconds")
    return ", ".join(named)


def group_line(group: dict[str, Any]) -> str:
    """Return the lanes and memory of a kind of GPU, and whether they fit."""
    fits = "" if group["fits"] else ": TOO MANY"
    return (
        f"{group['gpus']} x {group['lanes_per_gpu']} lanes, {group['memory_bytes'] / 1e9:.1f} of "
        f"{group['available_bytes'] / 1e9:.1f} GB{fits}; {group['largest_lanes_per_gpu']} lanes fit"
    )


def tokens_line(result: dict[str, Any]) -> str:
    """Return the tokens that an efficiency of 90 % needs, beside those of the job."""
    needed, given = result["tokens_per_gpu_for_90_percent"], result["tokens_per_gpu"]
    if needed is None:
        return "no number is enough"
    return f"{needed:,.0f} per GPU and window; here {given:,.0f}"


def offer_line(offer: dict[str, Any] | None) -> str:
    """Return hours, price and checkpoints."""
    if offer is None:
        return "no price"
    if offer["hours"] is None:
        return "never ends: it is interrupted again before it gets anywhere"
    dollars = "no price" if offer["dollars"] is None else f"{offer['dollars']:,.0f} dollars"
    return (
        f"{offer['hours']:.1f} h, {dollars}; {offer['expected_interruptions']:.1f} interruptions, "
        f"a checkpoint every {offer['checkpoint_interval_seconds'] / 60:.1f} minutes"
    )


def regression_lines(regression: dict[str, Any] | None) -> list[str]:
    """Return the predictions from measured runs."""
    if regression is None:
        return []
    said = [
        row(
            f"measured, {kind}",
            f"{facts['step_seconds']:.3f} s a step; leave-one-out error "
            f"{facts['mean_absolute_percentage_error']:.0%}",
        )
        for kind, facts in regression["kinds"].items()
    ]
    if beyond := regression["outside_of_what_was_measured"]:
        said.append(row("", f"beyond what was measured in {', '.join(beyond)}"))
    return said


def count(result: dict[str, Any], what: str) -> str:
    """Return a number of GPUs; if none was found, the number at which the search stopped."""
    gpus = result[f"most_gpus_with_{what}"]
    return f"at least {result['most_gpus_looked_at']}" if gpus is None else str(gpus)
