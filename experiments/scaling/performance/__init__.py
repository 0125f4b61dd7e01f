"""The performance model: how long a data-parallel step takes, and what follows from that.

workload    what a window costs: products, parameters, bytes
bandwidth   a network's, one number or by the size of what travels
nccl_tests  such a table from the output of NVIDIA's nccl-tests
step_time   computing, exchanging, waiting: seconds of a step
memory      what a GPU must hold
reliability checkpoints and preemptions
hardware    clusters as their TOML files describe them
planning    a training job on a cluster
answers     a plan as numbers and as lines
fitting     parameters of the model from measured scaling
regression  step times from measured runs, without a model
comparison  what those say of a planned step

Everything is in seconds, bytes, operations (a multiplication or an addition) and these per second.
"""
