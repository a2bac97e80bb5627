"""csr_matmat: the product of a sparse matrix in CSR form and a dense one; nominal size is its number of non-zeros.

Precondition: as for csr_matvec; ``indices`` lie within the rows of ``X``.
"""

import jax
import jax.numpy as jnp
import numpy as np

from suites import (
    CudaKernel,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    Sizes,
    WarpCallable,
    csr_sample,
    total_bytes,
    value_errors,
)
from suites.kernels.half_precision import ADDS_IN_PLACE, FLOATS, TUNED, in_float32
from suites.kernels.numba_cuda.sparse_blocks import csr_product_narrow, product_kernel, product_launch
from suites.ops.csr_matmat import numba_cpu, warp
from suites.ops.csr_matmat.samples import COLUMNS, dense, edges
from suites.peers import functions as peers


def _reference(data, indices, indptr, X):
    rows = jnp.repeat(jnp.arange(indptr.size - 1), jnp.diff(indptr), total_repeat_length=data.size)
    return [jax.ops.segment_sum(data[:, None] * X[indices], rows, indptr.size - 1, indices_are_sorted=True)]


OPERATOR = Operator(
    name="csr_matmat",
    version=1,
    outputs=lambda data, indices, indptr, X: [jax.ShapeDtypeStruct((indptr.shape[0] - 1, X.shape[1]), data.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.csr_matmat,
        "numba_parallel": numba_cpu.csr_matmat_parallel,
        "numba_cuda": CudaKernel(csr_product_narrow, product_launch, select=product_kernel),
        "warp": WarpCallable(warp.csr_matmat_in_groups, calls=1, atomic=True),
    },
    peers=peers.CSR_MATMAT,
    dtypes=FLOATS,
    lacks={"warp": ADDS_IN_PLACE, "numba_cuda": TUNED},
    sample=csr_sample(dense),
    edges=edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (
                np.ones(5, np.float32),
                np.zeros(4, np.int32),
                np.array([0, 5], np.int32),
                np.ones((3, COLUMNS), np.float32),
            ),
            {"jnp": Failure(TypeError, "incompatible shapes"), **value_errors(numba_cpu.LENGTHS)},
        ),
    ),
    gradient=Gradient(inputs=(0, 3)),
    bytes_read=total_bytes,
    bytes_written=lambda data, indices, indptr, X: (indptr.size - 1) * X.shape[1] * data.dtype.itemsize,
    flops=lambda data, indices, indptr, X: 2 * data.size * X.shape[1],
    # Truth has a product for each non-zero and column.
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**22,), cuda_full=(4096, 2**16, 2**20, 2**22, 2**24), quick_by_name=True),
)
