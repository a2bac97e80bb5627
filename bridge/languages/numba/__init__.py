"""Compiles and calls Numba kernels on the CPU."""
