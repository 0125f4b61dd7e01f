"""What single units hold: after every byte, under every character."""
