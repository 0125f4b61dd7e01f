"""From reviews to bytes on disk to contiguous streams; independent of models and training."""
