"""Fine-tuning: heads on a model's features, and the model under them, learned from labels."""
