"""Products that only the recurrence on vector units has."""
