"""The kernel of add in Numba-CUDA: a thread for each element."""

from suites.backends.numba_cuda import cuda, kernel


@kernel
def add_cuda(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]
