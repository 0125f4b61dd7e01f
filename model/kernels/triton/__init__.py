"""The window on NVIDIA GPUs: Triton kernels, replayed as CUDA graphs."""
