"""Files and standard input to records, and records to texts."""
