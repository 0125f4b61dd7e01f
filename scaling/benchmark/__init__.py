"""Speed: our recurrence, its peers and the floor, by turns in one process."""
