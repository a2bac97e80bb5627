"""Holds broken functions that get XLA's stream: copies of CUDA's driver that are told the wrong size or place."""

import ctypes

import jax

from bridge import STREAM, native_kernel
from suites.backends import BACKENDS
from suites.mutants.mutant import table

MUTANTS, broken = table(BACKENDS["native_cuda"])

try:
    COPY = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2
except OSError:  # without a driver none of these runs
    COPY = ctypes.CDLL(None).memcpy


def copied(arguments):
    outs = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)  # noqa: E731
    return native_kernel(COPY, outs, arguments, platform="cuda")


broken(lambda x: x, "compiled", "copies as many bytes as there are elements", name="bytes_for_elements")(
    copied(lambda x, out: (out, x, x.size, STREAM))
)
broken(lambda x: x, "compiled", "the output is copied over the input", name="swapped_pointers")(
    copied(lambda x, out: (x, out, out.nbytes, STREAM))
)
