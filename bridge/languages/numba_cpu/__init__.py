"""Compiles and calls Numba kernels on the CPU."""

from bridge.languages.numba_cpu.njit import LANGUAGE, numba_kernel
from bridge.languages.numba_cpu.pass_managers import free_pass_managers as _free_pass_managers

__all__ = ["LANGUAGE", "numba_kernel"]

_free_pass_managers()
