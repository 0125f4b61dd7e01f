"""Kernels of the mLSTM's recurrence: a folder for each value of `model.backend`.

Each folder's `mlstm.py` takes a `window.RecurrenceInput`. What they share lies here. The registry
that chooses among them is layers/recurrence.py.
"""
