"""What a job takes: how long a data-parallel step takes, and what follows from that.

workload    what a window costs: products, parameters, bytes
bandwidth   of a network: one number, or one per message size
nccl_tests  such a table from the output of NVIDIA's nccl-tests
step_time   computing, exchanging, waiting: seconds of a step
memory      what a GPU must hold
reliability checkpoints and preemptions
hardware    clusters as their TOML files describe them
planning    a training job on a cluster
answers     a plan as JSON and as text
planner     the options of scripts/plan.py: from a job and a cluster to the answers
batch_size  the largest number of lanes that fits into memory, found by training
fitting/    parameters of the model from measured scaling, and step times without a model
benchmark/  the speed of the recurrence, its peers and the floor, by turns in one process

Everything is in seconds, bytes, operations (a multiplication or an addition) and these per second.
"""
