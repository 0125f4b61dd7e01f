"""What a model knows: logistic regression on its features, one neuron, baselines, plots, report."""
