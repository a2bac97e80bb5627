"""Holds the building blocks of Numba-CUDA kernels."""
