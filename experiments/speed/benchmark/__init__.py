"""Speed: our recurrence, its peers and the lower bound, interleaved in one process."""
