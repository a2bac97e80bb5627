"""Compiles and calls Numba kernels on the CPU."""

from bridge.languages.numba_cpu.njit import LANGUAGE, numba_kernel

__all__ = ["LANGUAGE", "numba_kernel"]
