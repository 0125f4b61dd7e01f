"""Speed: our recurrence, its peers and the floor, interleaved in one process."""
