"""Titles of reviews, which stand at a review's end."""

SEPARATOR = b" | "  # between a review and its title
