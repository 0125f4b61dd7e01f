"""Published data sets, fetched and checked."""
