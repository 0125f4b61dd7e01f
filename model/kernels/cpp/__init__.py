"""The recurrence in compiled C++ on vector units."""
