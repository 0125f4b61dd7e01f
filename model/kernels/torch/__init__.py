"""The recurrence in plain torch, with its gradient written out."""
