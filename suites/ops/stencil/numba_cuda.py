"""Kernels of stencil in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import LOADS, THREADS, cuda, device, kernel, widened


@device
def heated(center, above, below, left, right, rate, four):
    across, along = widened(above) + widened(below), widened(left) + widened(right)
    return widened(center) + widened(rate) * (across + along - widened(four) * widened(center))


@kernel
def stencil_cuda(u, rate, out):
    """Columns lie along x. Each thread takes LOADS consecutive rows, which share their vertical neighbours.

    It goes on to further rows if there are too few blocks along y.
    """
    rows, columns = np.uint64(u.shape[0]), np.uint64(u.shape[1])
    speed, four, one = rate[0], u.dtype.type(4), np.uint64(1)
    j = np.uint64(cuda.blockIdx.x) * np.uint64(cuda.blockDim.x) + np.uint64(cuda.threadIdx.x)
    if j >= columns:
        return
    inner = j > np.uint64(0) and j + one < columns
    i = (np.uint64(cuda.blockIdx.y) * np.uint64(cuda.blockDim.y) + np.uint64(cuda.threadIdx.y)) * np.uint64(LOADS)
    while i < rows:
        if inner and i > np.uint64(0) and i + np.uint64(LOADS) < rows:
            i1, i2, i3 = i + one, i + np.uint64(2), i + np.uint64(3)
            west, east = j - one, j + one
            above, a, b, c, d, below = u[i - one, j], u[i, j], u[i1, j], u[i2, j], u[i3, j], u[i + np.uint64(4), j]
            a_west, b_west, c_west, d_west = u[i, west], u[i1, west], u[i2, west], u[i3, west]
            a_east, b_east, c_east, d_east = u[i, east], u[i1, east], u[i2, east], u[i3, east]
            out[i, j] = heated(a, above, b, a_west, a_east, speed, four)
            out[i1, j] = heated(b, a, c, b_west, b_east, speed, four)
            out[i2, j] = heated(c, b, d, c_west, c_east, speed, four)
            out[i3, j] = heated(d, c, below, d_west, d_east, speed, four)
        else:
            row = i
            while row < rows and row < i + np.uint64(LOADS):
                if inner and row > np.uint64(0) and row + one < rows:
                    out[row, j] = heated(
                        u[row, j], u[row - one, j], u[row + one, j], u[row, j - one], u[row, j + one], speed, four
                    )
                else:
                    out[row, j] = u[row, j]
                row += one
        i += np.uint64(cuda.gridDim.y) * np.uint64(cuda.blockDim.y) * np.uint64(LOADS)


def launch(inputs, outs):
    """The launch of blocks as wide as the rows, up to the largest width: a warp then reads 32 neighbours."""
    rows, columns = outs[0].shape
    width = 32
    while width < THREADS and width < columns:
        width *= 2
    height = THREADS // width
    return {"grid": (-(-columns // width), min(-(-rows // (height * LOADS)), 65535)), "block": (width, height)}
