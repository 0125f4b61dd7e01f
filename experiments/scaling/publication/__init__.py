"""The published scaling figure: its points, and the performance models fitted to them."""
