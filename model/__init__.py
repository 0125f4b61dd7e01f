"""The network in torch: the multiplicative LSTM, its peers and their kernels."""
