"""Constants of the performance model from measurements."""
