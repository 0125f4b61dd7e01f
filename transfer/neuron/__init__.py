"""One unit: ranked, removed, kept alone, read."""
