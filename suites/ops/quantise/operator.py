"""quantise: each row in int8 and its scale, such that ``quantised[i] * scales[i]`` is about ``x[i]``.

``scales[i]`` is the largest magnitude of row i over 127, and elements are rounded to the nearest even integer. A row of
nothing but tiny numbers has the scale ``TINY / 127``. Nominal size is the number of elements.
Scales of rows of 16 bits are float32.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from suites import CudaKernel, CutileKernel, Domain, Operator, Sizes, TritonKernel, WarpKernel, total_bytes, values
from suites.kernels.half_precision import FLOATS, wide
from suites.ops.quantise import cutile, numba_cpu, numba_cuda, triton, warp
from suites.ops.quantise.numba_cpu import LEVELS, TINY


def _reference(x):
    x = x.astype(wide(x.dtype))
    scales = jnp.maximum(jnp.max(jnp.abs(x), axis=1, initial=0), TINY) / LEVELS
    return [jnp.round(x / scales[:, None]).astype(jnp.int8), scales]


def _sample(dtype, size, seed):
    columns = math.isqrt(size)
    rows = size // columns
    return (values(dtype, rows * columns, np.random.default_rng(seed)).reshape(rows, columns),)


def _edges(dtype):
    random = np.random.default_rng(6)
    shapes = {"no_rows": (0, 5), "one_column": (5, 1), "one_long_row": (1, 5000), "tall": (1031, 2), "odd": (7, 131)}
    cases = {name: values(dtype, math.prod(shape), random).reshape(shape) for name, shape in shapes.items()}
    cases["zeros"] = np.zeros((3, 33), dtype)
    cases["halves"] = np.append(np.arange(-126.5, 127), 127)[None].astype(dtype)  # the scale is 1
    return {name: (x,) for name, x in cases.items()}


OPERATOR = Operator(
    name="quantise",
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, np.int8), jax.ShapeDtypeStruct(x.shape[:1], wide(x.dtype))],
    reference=_reference,
    kernels={
        "numba": numba_cpu.quantise,
        "numba_parallel": numba_cpu.quantise_parallel,
        "numba_cuda": CudaKernel(numba_cuda.quantise_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.quantise_warp, warp.launch),
        "triton": TritonKernel(triton.quantise_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.quantise_cutile, cutile.launch),
    },
    dtypes=FLOATS,
    sample=_sample,
    edges=_edges,
    domains={"x": Domain(finite=True)},
    gradient=None,  # it is zero almost everywhere
    bytes_read=total_bytes,
    bytes_written=lambda x: x.size + x.shape[0] * wide(x.dtype).itemsize,
    flops=lambda x: 3 * x.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24), quick_by_name=True),
)
