"""Resources of a training job: the time of a data-parallel step, memory, hours.

workload    operations, parameters and weights of a model; memory of a GPU
step_time   the seconds of a step: computing, waiting, exchanging gradients
hardware    clusters, as their TOML files describe them
planning    a run on a cluster: hours, memory, assumptions
planner     scripts/plan.py: options, JSON, the printed table; planned against actual

Units: seconds, bytes, operations (a multiplication or an addition), and these per second.
"""
