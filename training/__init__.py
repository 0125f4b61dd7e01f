"""How the model learns: step loop, optimiser, precision, distributed, checkpoints, logs."""
