"""Numba-CUDA kernels, and Python functions that launch them. numba-cuda is imported when the first one is wrapped."""

from bridge.languages.numba_cuda.callables import numba_cuda_callable
from bridge.languages.numba_cuda.cuda_jit import LANGUAGE, numba_cuda_kernel

__all__ = ["LANGUAGE", "numba_cuda_callable", "numba_cuda_kernel"]
