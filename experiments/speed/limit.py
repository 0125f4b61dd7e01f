"""Compare the measured speed of training on a GPU with its physical limit."""

import torch

from experiments.results import read_result
from experiments.tables import markdown, origins
from training.utilization import limit_seconds, peak_of

SIZES = (4096, 1024)


def gpu_limit() -> str:
    """Return a table: the recurrence as measured, and the limits for it."""
    rows, results = [], {}
    for units in SIZES:
        name = f"gpu_recurrence_{units}"
        result = results[name] = read_result("speed", name)
        options = result["options"]
        peak = peak_of(result["origin"]["hardware"]["gpus"][0])
        assert peak is not None
        weights, lanes = 5 * units**2, options["batch"]
        limit = lanes / limit_seconds(weights, lanes, torch.bfloat16, peak)
        measured = result["chars_per_second"]["fused"]
        cublas = result["chars_per_second"]["gemm_floor"]
        reading = 1e6 * 2 * weights / peak.bytes
        products = 1e6 * 2 * weights * lanes / peak.operations
        rows.append(
            (
                f"{units:,} units, {lanes} lanes",
                f"{products:.1f}",
                f"{reading:.1f}",
                f"{limit / 1e6:.2f}",
                f"{cublas / 1e6:.2f}",
                f"{measured / 1e6:.2f}",
                f"{measured / limit:.0%}",
            )
        )
    head = (
        "training in bf16 on an H200",
        "products of a pass, microseconds",
        "reading the weights, microseconds",
        "limit, million characters/s",
        "cuBLAS's sequence",
        "ours",
        "ours, fraction of the limit",
    )
    return f"{markdown(head, rows)}\n\n{origins(results)}"
