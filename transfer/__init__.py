"""Evaluation of a model's features: logistic regression, one neuron, baselines, plots, report."""
