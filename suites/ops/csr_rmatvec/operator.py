"""csr_rmatvec: ``out = y + A.T @ x`` for a sparse matrix A in CSR form; nominal size is its number of non-zeros.

This is how spikes reach their targets: row i holds the synapses of neuron i, which sends ``x[i]``. ``y`` holds what the
targets have received so far, one element for each column of A. No other input tells the number of columns.
Precondition: ``indptr`` rises from 0 to the number of non-zeros and ``indices`` lie within ``y``. Checking that would
cost as much as the product.
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
from suites.kernels.half_precision import ADDS_IN_PLACE, FLOATS, in_float32
from suites.ops.csr_rmatvec import numba_cpu, numba_cuda, warp
from suites.ops.csr_rmatvec.samples import edges, vectors
from suites.peers import functions as peers


def _reference(data, indices, indptr, x, y):
    each = jnp.repeat(x, jnp.diff(indptr), total_repeat_length=data.size)
    return [y.at[indices].add(data * each)]


def _call(data, indices, indptr):
    vectors = np.ones(data, np.float32), np.zeros(indices, np.int32), np.array(indptr, np.int32)
    return *vectors, np.ones(1, np.float32), np.ones(3, np.float32)


_FAILURES = {"jnp": Failure(ValueError, "Incompatible (types|shapes)"), **value_errors(numba_cpu.LENGTHS)}

OPERATOR = Operator(
    name="csr_rmatvec",
    version=1,
    outputs=lambda data, indices, indptr, x, y: [jax.ShapeDtypeStruct(y.shape, y.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.csr_rmatvec,
        "numba_parallel": numba_cpu.csr_rmatvec_parallel,
        "numba_cuda": CudaKernel(numba_cuda.csr_rmatvec_cuda, numba_cuda.launch, atomic=True),
        "numba_cuda_mlir": CudaKernel(numba_cuda.csr_rmatvec_cuda, numba_cuda.launch, atomic=True),
        "warp": WarpKernel(warp.csr_rmatvec_warp, warp.launch, atomic=True),
    },
    peers=peers.CSR_RMATVEC,
    dtypes=FLOATS,
    lacks={"warp": ADDS_IN_PLACE, "numba_cuda": ADDS_IN_PLACE, "numba_cuda_mlir": ADDS_IN_PLACE},
    sample=csr_sample(vectors),
    edges=edges,
    errors=(
        ErrorCase("unequal_lengths", lambda: _call(5, 4, [0, 5]), _FAILURES),
        ErrorCase("x_too_short", lambda: _call(4, 4, [0, 2, 4]), _FAILURES),
    ),
    gradient=Gradient(inputs=(0, 3, 4)),
    bytes_read=total_bytes,
    bytes_written=lambda data, indices, indptr, x, y: total_bytes(y),
    flops=lambda data, indices, indptr, x, y: 2 * data.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
