"""What only the recurrence on vector units has."""
