"""Make the tables of README.md."""

from typing import Any

from experiments.tables import markdown, origins, read_result

FULL_SIZE = 100  # bytes and links are a hundredth
# How the recurrence delivers its gradients, and the heads of their columns.
HEAD = {"per byte": "per byte", "together": "all in one node", "one by one": "a node each"}


def ready() -> str:
    """Return when the large gradients are ready, as a part of the backward pass."""
    result = read_result("exchange", "readiness")
    leaves = {kind: {row["name"]: row for row in result[kind]["leaves"]} for kind in HEAD}
    rows = [
        [f"`{name}` ({row['part']:.1%} of the bytes)", *(moment(leaves[k], name) for k in HEAD)]
        for name, row in leaves["one by one"].items()
        if row["part"] > 0.01
    ]
    seconds = [f"{result[kind]['backward_seconds']:.2f}" for kind in HEAD]
    rows.append(["seconds of the backward pass", *seconds])
    head = ["ready at, of the backward pass", *(HEAD[kind] for kind in HEAD)]
    return f"{markdown(head, rows)}\n\n{origins({'readiness.json': result})}"


def moment(leaves: dict[str, Any], name: str) -> str:
    """Return when a gradient is ready; if all gates share one weight, that of the weight."""
    row = leaves.get(name) or leaves[name.split(",")[0]]
    return f"{row['ready']:.2f}"


def costs() -> str:
    """Return the exposed seconds of each way, and the part that separate gates hide."""
    result = read_result("exchange", "replay")
    computing = float(result["settings"]["seconds"])
    found: dict[str, dict[str, Any]] = {}
    for row in result["rows"]:
        found.setdefault(row["way"], {})[row["profile"]] = row
    rows = []
    for way, kinds in found.items():
        sent = sorted({round(row["sent_bytes"] * FULL_SIZE / 1e6) for row in kinds.values()})
        cells = [
            f"{row['exposed_seconds']:.3f} ({computing / row['seconds']:.2f})"
            for row in (kinds[kind] for kind in HEAD)
        ]
        rows.append([way, f"{' to '.join(map(str, {sent[0]: 0, sent[-1]: 0}))} MB", *cells])
    head = ["exposed seconds", "bytes of a step and rank, at full size", *HEAD.values()]
    hidden = ", ".join(f"{way} {hidden_part(found[way]):.0%}" for way in ("fp32", "fp16", "bf16"))
    return (
        f"{markdown(head, rows)}\n\n"
        "Exposed seconds saved by one autograd node per gate, compared with all weights in one "
        f"node (both in buckets): {hidden}.\n\n{origins({'replay.json': result})}"
    )


def hidden_part(kinds: dict[str, Any]) -> float:
    """Return the part of a way's exposed seconds that a node for each gate hides."""
    return 1 - kinds["one by one"]["exposed_seconds"] / kinds["together"]["exposed_seconds"]
