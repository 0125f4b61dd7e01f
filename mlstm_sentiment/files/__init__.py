"""Models on disk: whole or absent, checked before they are used."""
