"""Compiles and calls Numba kernels on the CPU."""

from bridge.languages.numba.numba_kernel import LANGUAGE, numba_kernel

__all__ = ["LANGUAGE", "numba_kernel"]
