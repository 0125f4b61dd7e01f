"""What a corpus is made of, as numbers, a table and a figure."""
