"""csr_binary_matvec: for each row of a sparse matrix in CSR form, the sum of the weights of the neurons that spiked.

This is the product of the matrix and a vector of spikes. Nominal size is the number of non-zeros. Precondition: as for
csr_matvec.
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
    WarpKernel,
    csr_sample,
    total_bytes,
    value_errors,
)
from suites.kernels.half_precision import ADDS_IN_PLACE, FLOATS, TUNED, in_float32
from suites.kernels.numba_cuda.sparse_blocks import csr_rows_of
from suites.kernels.warp.blocks import zeros
from suites.ops.csr_binary_matvec import numba_cpu, numba_cuda, warp
from suites.ops.csr_binary_matvec.samples import edges, spikes_of
from suites.peers import functions as peers


def _reference(data, indices, indptr, spikes):
    rows = jnp.repeat(jnp.arange(indptr.size - 1), jnp.diff(indptr), total_repeat_length=data.size)
    active = jnp.where(spikes[indices], data, jnp.zeros_like(data))
    return [jax.ops.segment_sum(active, rows, indptr.size - 1, indices_are_sorted=True)]


OPERATOR = Operator(
    name="csr_binary_matvec",
    version=1,
    outputs=lambda data, indices, indptr, spikes: [jax.ShapeDtypeStruct((indptr.shape[0] - 1,), data.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.csr_binary_matvec,
        "numba_parallel": numba_cpu.csr_binary_matvec_parallel,
        "numba_cuda": CudaKernel(numba_cuda.csr_binary_matvec_cuda, csr_rows_of),
        "numba_cuda_mlir": CudaKernel(numba_cuda.csr_binary_matvec_cuda, csr_rows_of),
        "warp": WarpKernel(warp.csr_binary_matvec_warp, warp.launch, initial=zeros, atomic=True),
    },
    peers=peers.CSR_BINARY_MATVEC,
    dtypes=FLOATS,
    lacks={"warp": ADDS_IN_PLACE, "numba_cuda": TUNED, "numba_cuda_mlir": TUNED},
    sample=csr_sample(spikes_of),
    edges=edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (np.ones(5, np.float32), np.zeros(4, np.int32), np.array([0, 5], np.int32), np.ones(3, bool)),
            {"jnp": Failure(ValueError, "Incompatible (types|shapes)"), **value_errors(numba_cpu.LENGTHS)},
        ),
    ),
    gradient=Gradient(inputs=(0,), sizes=(2100,)),
    bytes_read=total_bytes,
    bytes_written=lambda data, indices, indptr, spikes: (indptr.size - 1) * data.dtype.itemsize,
    flops=lambda data, indices, indptr, spikes: data.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
