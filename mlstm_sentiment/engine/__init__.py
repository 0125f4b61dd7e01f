"""The inference engine: texts through a multiplicative LSTM, without torch."""
