"""How a run is described: one schema that composes the sections owned by each component."""
