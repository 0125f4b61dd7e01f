"""What a job takes: how long a data-parallel step takes, and what follows from that.

workload    what a window costs: products, parameters, bytes
bandwidth   a network's, one number or by the size of what travels
nccl_tests  such a table from the output of NVIDIA's nccl-tests
step_time   computing, exchanging, waiting: seconds of a step
memory      what a GPU must hold
reliability checkpoints and preemptions
hardware    clusters as their TOML files describe them
planning    a training job on a cluster
answers     a plan as numbers and as lines
planner     what scripts/plan.py asks: a job, a cluster, an answer
batch_size  the largest number of lanes that fits into memory, by training on some
fitting/    parameters of the model from measured scaling, and step times without a model
benchmark/  the speed of the recurrence, its peers and the floor, by turns in one process

Everything is in seconds, bytes, operations (a multiplication or an addition) and these per second.
"""
