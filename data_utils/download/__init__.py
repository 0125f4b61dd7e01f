"""Published data sets, downloaded and checked."""
