"""depthwise_conv: each channel is convolved with its own taps, over the elements up to its place.

``out[c, t]`` is the sum of ``taps[c, k] * x[c, t - K + 1 + k]`` over the K taps, where elements before the first one
count as zero. Nominal size is the size of x.
"""

import math

import jax
import numpy as np

from suites import (
    CudaKernel,
    CutileKernel,
    Domain,
    Gradient,
    Operator,
    Sizes,
    TritonKernel,
    WarpKernel,
    total_bytes,
    values,
)
from suites.kernels.half_precision import FLOATS, LOSES_NAN, WIDE, in_float32
from suites.ops.depthwise_conv import cutile, numba_cpu, numba_cuda, triton, warp

TAPS = 4
"""Taps of a channel in a sample."""


def _reference(x, taps):
    channels, width = taps.shape
    options = {"window_strides": (1,), "padding": [(width - 1, 0)], "feature_group_count": channels}
    return [jax.lax.conv_general_dilated(x[None], taps[:, None], precision="highest", **options)[0]]


def _call(dtype, channels, length, width, random):
    x, taps = values(dtype, channels * length, random), values(dtype, channels * width, random)
    return x.reshape(channels, length), taps.reshape(channels, width)


def _sample(dtype, size, seed):
    channels = max(1, math.isqrt(size) // 4)
    return _call(dtype, channels, size // channels, TAPS, np.random.default_rng(seed))


def _edges(dtype):
    shapes = {
        "one_tap": (3, 33, 1),
        "few_elements": (3, 2, 5),
        "one_long_row": (1, 5000, 4),
        "odd": (7, 131, 3),
    }
    random = np.random.default_rng(6)
    return {name: _call(dtype, *shape, random) for name, shape in shapes.items()}


OPERATOR = Operator(
    name="depthwise_conv",
    outputs=lambda x, taps: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.depthwise_conv,
        "numba_parallel": numba_cpu.depthwise_conv_parallel,
        "numba_cuda": CudaKernel(numba_cuda.depthwise_conv_cuda, numba_cuda.launch),
        "numba_cuda_mlir": CudaKernel(numba_cuda.depthwise_conv_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.depthwise_conv_warp, warp.launch),
        "triton": TritonKernel(triton.depthwise_conv_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.depthwise_conv_cutile, cutile.launch),
    },
    dtypes=FLOATS,
    lacks=LOSES_NAN,
    sample=_sample,
    edges=_edges,
    domains={"taps": Domain(finite=True)},  # XLA takes a missing element for zero, and adds zero times a tap
    gradient=Gradient(inputs=(0, 1), dtypes=WIDE),
    bytes_read=total_bytes,
    bytes_written=lambda x, taps: total_bytes(x),
    flops=lambda x, taps: 2 * x.size * taps.shape[1],
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24), quick_by_name=True),
)
