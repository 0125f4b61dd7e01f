"""What the model knows: logistic regression, one neuron, baselines, plots, report."""
