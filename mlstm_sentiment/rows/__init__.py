"""Rows of tables in, rows with answers out: what is written, counted and summarised."""
