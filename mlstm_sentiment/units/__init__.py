"""The values of single units: after every byte, and for every character."""
