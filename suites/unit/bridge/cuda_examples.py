"""Kernels and callables that several tests of Numba-CUDA run. It skips the tests that import it without numba-cuda."""

import math
import threading

import jax
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
HAS_GPU = cuda.is_available()
gpu = pytest.mark.skipif(not HAS_GPU, reason="there is no NVIDIA GPU")
N = 1000
OUT = jax.ShapeDtypeStruct((N,), np.float32)


@cuda.jit
def square(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]


@cuda.jit
def square_root(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = math.sqrt(x[i])


def absolute(x, out, stream):
    """Two kernels with a temporary between them."""
    size = x.shape[0]
    temporary = cuda.device_array(size, dtype=np.float32)
    blocks = (size + 255) // 256
    square[blocks, 256, stream](x, temporary)
    square_root[blocks, 256, stream](temporary, out)


def run_threads(work):
    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
