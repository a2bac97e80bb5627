"""Calls Numba-CUDA kernels, and Python functions that launch them. Wrapping the first one imports numba-cuda."""

from bridge.languages.numba_cuda.numba_cuda_callable import numba_cuda_callable
from bridge.languages.numba_cuda.numba_cuda_kernel import LANGUAGE, numba_cuda_kernel

__all__ = ["LANGUAGE", "numba_cuda_callable", "numba_cuda_kernel"]
