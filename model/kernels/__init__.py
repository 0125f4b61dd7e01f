"""Fast implementations of the mLSTM's recurrence, each tested against `recurrence.reference`."""
