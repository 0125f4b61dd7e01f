"""How gradients become updates."""
