"""Holds a broken kernel of numba-cuda-mlir: with numba-cuda it is right."""

from suites.backends import BACKENDS
from suites.backends.numba_cuda import CudaKernel
from suites.kernels.numba_cuda.blocks import cuda, kernel
from suites.mutants.mutant import table

MUTANTS, broken = table(BACKENDS["numba_cuda_mlir"])


@broken(
    lambda x: x * 2, "compiled", "a thread that raises goes on, and writes after the last element",
    make=lambda kernel: CudaKernel(kernel, lambda inputs, outs: {"launch_dims": outs[0].size + 1}),
)  # fmt: skip
@kernel
def ended_by_raise(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        raise IndexError
    out[i] = x[i] * 2
