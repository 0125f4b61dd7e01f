"""Files, pipes and addresses to records, and records to texts."""
