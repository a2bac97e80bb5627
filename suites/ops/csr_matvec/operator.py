"""csr_matvec: the product of a sparse matrix in CSR form and a dense vector; nominal size is its number of non-zeros.

Precondition: ``indptr`` rises from 0 to the number of non-zeros and ``indices`` lie within ``x``. Checking that would
cost as much as the product.
"""

import jax
import jax.numpy as jnp
import numpy as np

from suites import (
    CudaKernel,
    CutileKernel,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    Sizes,
    TritonKernel,
    WarpKernel,
    csr_sample,
    total_bytes,
    value_errors,
)
from suites.kernels.half_precision import ADDS_IN_PLACE, FLOATS, TUNED, in_float32
from suites.kernels.numba_cuda.sparse_blocks import csr_rows_of
from suites.kernels.warp.blocks import zeros
from suites.ops.csr_matvec import cutile, numba_cpu, numba_cuda, triton, warp
from suites.ops.csr_matvec.samples import edges, vector
from suites.peers import functions as peers
from suites.vendors.calls import triton_call


def _reference(data, indices, indptr, x):
    rows = jnp.repeat(jnp.arange(indptr.size - 1), jnp.diff(indptr), total_repeat_length=data.size)
    return [jax.ops.segment_sum(data * x[indices], rows, indptr.size - 1, indices_are_sorted=True)]


OPERATOR = Operator(
    name="csr_matvec",
    version=1,
    outputs=lambda data, indices, indptr, x: [jax.ShapeDtypeStruct((indptr.shape[0] - 1,), data.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.csr_matvec,
        "numba_parallel": numba_cpu.csr_matvec_parallel,
        "numba_cuda": CudaKernel(numba_cuda.csr_matvec_cuda, csr_rows_of),
        "numba_cuda_mlir": CudaKernel(numba_cuda.csr_matvec_cuda, csr_rows_of),
        "warp": WarpKernel(warp.csr_matvec_warp, warp.launch, initial=zeros, atomic=True),
        "triton": TritonKernel(triton.csr_matvec_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.csr_matvec_cutile, cutile.launch),
        "jax_triton": triton_call(TritonKernel(triton.csr_matvec_triton, triton.launch)),
    },
    peers=peers.CSR_MATVEC,
    dtypes=FLOATS,
    lacks={"warp": ADDS_IN_PLACE, "numba_cuda": TUNED, "numba_cuda_mlir": TUNED},
    sample=csr_sample(vector),
    edges=edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (np.ones(5, np.float32), np.zeros(4, np.int32), np.array([0, 5], np.int32), np.ones(3, np.float32)),
            {"jnp": Failure(TypeError, "incompatible shapes"), **value_errors(numba_cpu.LENGTHS)},
        ),
    ),
    gradient=Gradient(inputs=(0, 3)),
    bytes_read=total_bytes,
    bytes_written=lambda data, indices, indptr, x: (indptr.size - 1) * data.dtype.itemsize,
    flops=lambda data, indices, indptr, x: 2 * data.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(4096, 2**20, 2**24)),
)
