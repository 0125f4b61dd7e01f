"""The recipes of 2018 on fewer GPUs with more lanes each, by the planner."""

from dataclasses import replace

from configs.options import SHIPPED, load_config, read_toml
from experiments.tables import markdown
from scaling.hardware import ClusterConfig
from scaling.planner import VALID_FRACTION
from scaling.planning import HEADROOM, Plan, TextSize

CHARACTERS = 38.3e9  # an epoch of the Amazon reviews
MEMORIES = (80e9, 141e9)
SIZES = {4096: ((8, 256), (4, 512)), 8192: ((8, 96), (3, 256))}  # units: GPUs, lanes of each


def same_batch() -> str:
    """Return a table: the same batch, and so the same training, on H200s."""
    cluster = read_toml(SHIPPED / "clusters" / "h200.toml", ClusterConfig)
    text = TextSize(CHARACTERS, valid_tokens=CHARACTERS * VALID_FRACTION)
    rows = []
    for units, ways in SIZES.items():
        run = load_config(SHIPPED / f"paper_{units}.toml")
        for gpus, lanes in ways:
            data = replace(run.data, lanes_per_rank=lanes)
            plan = Plan(cluster, replace(run, data=data), gpus, text)
            answers = plan.answers()
            fitting = [plan.memory.largest_lanes(memory, HEADROOM) for memory in MEMORIES]
            rows.append(
                (
                    f"{units:,}",
                    f"{gpus} x {lanes}",
                    f"{answers['groups'][0]['memory_bytes'] / 1e9:.0f} GB",
                    f"{answers['characters_per_second'] / gpus / 1e6:.2f} million",
                    f"{answers['hours']:.1f}",
                    f"{answers['gpu_hours']:.1f}",
                    *(f"{most:,}" for most in fitting),
                )
            )
    head = (
        "units",
        "GPUs x lanes",
        "memory of a GPU",
        "characters/s of a GPU",
        "hours",
        "GPU hours",
        *(f"lanes that fit in {memory / 1e9:.0f} GB" for memory in MEMORIES),
    )
    return markdown(head, rows)
