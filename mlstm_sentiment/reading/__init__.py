"""Files and pipes to records, and records to texts."""
