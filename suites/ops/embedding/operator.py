"""embedding: ``out[i] = table[indices[i]]``, the rows of a table; its derivative adds rows up, as scatter_add does.

Nominal size is the size of out. Precondition: ``indices`` lie within the table.
"""

import jax
import jax.numpy as jnp
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
from suites.kernels.half_precision import FLOATS
from suites.ops.embedding import cutile, numba_cpu, numba_cuda, triton, warp

WIDTH = 64
"""Columns of the table of a sample, which has as many rows as are read."""


def _call(dtype, rows, width, count, random):
    indices = random.integers(0, max(rows, 1), count).astype(np.int32)
    return values(dtype, rows * width, random).reshape(rows, width), indices


def _sample(dtype, size, seed):
    count = max(1, size // WIDTH)
    return _call(dtype, count, WIDTH, count, np.random.default_rng(seed))


def _bytes_read(table, indices):
    """The indices, and each row that one of them names."""
    return total_bytes(indices) + np.unique(indices).size * table.shape[1] * table.dtype.itemsize


def _edges(dtype):
    random = np.random.default_rng(6)
    shapes = {"no_indices": (5, 7, 0), "one": (1, 1, 1), "one_column": (11, 1, 300), "odd": (13, 131, 37)}
    cases = {name: _call(dtype, *shape, random) for name, shape in shapes.items()}
    table, indices = _call(dtype, 9, 33, 64, random)
    table[4], table[5] = np.nan, np.inf
    return cases | {"nan_rows": (table, indices), "one_row_again": (table, np.full_like(indices, 8))}


OPERATOR = Operator(
    name="embedding",
    outputs=lambda table, indices: [jax.ShapeDtypeStruct((indices.shape[0], table.shape[1]), table.dtype)],
    reference=lambda table, indices: [jnp.take(table, indices, axis=0)],
    kernels={
        "numba": numba_cpu.embedding,
        "numba_parallel": numba_cpu.embedding_parallel,
        "numba_cuda": CudaKernel(numba_cuda.embedding_cuda, numba_cuda.launch),
        "numba_cuda_mlir": CudaKernel(numba_cuda.embedding_cuda, numba_cuda.launch),
        "warp": WarpKernel(warp.embedding_warp, warp.launch),
        "triton": TritonKernel(triton.embedding_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.embedding_cutile, cutile.launch),
    },
    dtypes=FLOATS,
    sample=_sample,
    edges=_edges,
    domains={"indices": Domain(below=lambda table, indices: table.shape[0])},
    gradient=Gradient(inputs=(0,)),
    bytes_read=_bytes_read,
    bytes_written=lambda table, indices: indices.size * table.shape[1] * table.dtype.itemsize,
    flops=lambda table, indices: indices.size,  # the address of each row
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24), quick_by_name=True),
)
