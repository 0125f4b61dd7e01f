"""The definition of the recurrence, which all other kernels are compared with."""
