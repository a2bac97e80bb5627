"""The kernel of depthwise_conv in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import cuda, kernel, rows_of, wide_number, widened


@kernel
def depthwise_conv_cuda(x, taps, out):
    """The threads with one ``threadIdx.y`` share a channel. The cache holds the elements that neighbours share."""
    channels, length, width = np.uint64(x.shape[0]), np.uint64(x.shape[1]), np.uint64(taps.shape[1])
    c = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)
    while c < channels:
        t = np.uint64(cuda.threadIdx.x)
        while t < length:
            total = wide_number(out, 0)
            back = np.uint64(0)
            while back < width and back <= t:
                total += widened(taps[c, width - np.uint64(1) - back]) * widened(x[c, t - back])
                back += np.uint64(1)
            out[c, t] = total
            t += np.uint64(cuda.blockDim.x)
        c += np.uint64(cuda.gridDim.x) * np.uint64(cuda.blockDim.y)


def launch(inputs, outs):
    channels, length = outs[0].shape
    return rows_of(channels, length)
