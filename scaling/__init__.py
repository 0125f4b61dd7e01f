"""What a training job needs: the time of a data-parallel step, and what follows from it.

workload    what a window costs: products, parameters, bytes
bandwidth   of a network: one number, or one per message size
nccl_tests  reads bandwidths from the output of NVIDIA's nccl-tests
step_time   the seconds of a step: computing, exchanging, waiting
memory      the memory that a GPU needs
reliability the cost of interruptions and checkpoints
hardware    clusters as their TOML files describe them
planning    a training job on a cluster
answers     a plan as JSON and as text
planner     the options of scripts/plan.py
fitting/    fits the model to measurements; regression of step times without the model
benchmark/  measures the recurrence, its peers and the floor by turns in one process

Units: seconds, bytes, operations (a multiplication or an addition), and these per second.
"""
