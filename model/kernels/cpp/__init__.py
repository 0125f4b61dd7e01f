"""The recurrence in compiled C++ on vector units, also with products of 8-bit integers."""
