"""The points of a sweep, their files, and the performance model fitted to them."""
