"""What a run shows about its model during training."""
