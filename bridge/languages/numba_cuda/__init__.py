"""Calls Numba-CUDA kernels, and Python functions that launch them. Wrapping the first one imports numba-cuda."""
