"""Short texts with known sentiment: everyday sentences, a grammar of them, and their noise."""
