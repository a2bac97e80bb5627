"""Kernels of sum in Numba-CUDA."""

from suites.kernels.half_precision import wide
from suites.kernels.numba_cuda.blocks import THREADS, cuda, partial_count
from suites.kernels.numba_cuda.reductions import add_up_parts, add_up_sums


def total_cuda(x, out, stream):
    """Two passes, because the bits of a sum by atomic additions would vary from call to call."""
    blocks = partial_count(x.size)
    if blocks == 1:
        add_up_sums[1, THREADS, stream](x, out)
    else:
        partials = cuda.device_array(blocks, dtype=wide(x.dtype))
        add_up_parts[blocks, THREADS, stream](x, partials)
        add_up_sums[1, THREADS, stream](partials, out)
