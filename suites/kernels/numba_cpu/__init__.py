"""Holds the building blocks of Numba kernels on CPUs."""
