"""Reviews to bytes on disk to contiguous streams. Knows nothing of models or training."""
