"""scatter_add: ``acc[targets[i]] += values[i] * scale[0]`` for each i. Targets come in any order, some more than once.

Nominal size is the number of values. Precondition: ``targets`` lie within ``acc``. Checking that would cost as much as
adding.
"""

import jax
import numpy as np

from suites import CudaKernel, ErrorCase, Failure, Gradient, Operator, Sizes, WarpKernel, total_bytes, value_errors
from suites.kernels.half_precision import ADDS_IN_PLACE, FLOATS, in_float32
from suites.ops.scatter_add import numba_cpu, numba_cuda, warp
from suites.ops.scatter_add.samples import edges, sample


def _reference(values, targets, scale, acc):
    return [acc.at[targets].add(values * scale[0])]


OPERATOR = Operator(
    name="scatter_add",
    version=1,
    outputs=lambda values, targets, scale, acc: [jax.ShapeDtypeStruct(acc.shape, acc.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.scatter_add,
        "numba_parallel": numba_cpu.scatter_add_parallel,
        "numba_cuda": CudaKernel(numba_cuda.scatter_add_cuda, numba_cuda.launch, atomic=True),
        "numba_cuda_mlir": CudaKernel(numba_cuda.scatter_add_cuda, numba_cuda.launch, atomic=True),
        "warp": WarpKernel(
            warp.scatter_add_warp,
            lambda inputs, outs: {"launch_dims": inputs[0].shape, "in_out_argnames": ["acc"]},
            atomic=True,
        ),
    },
    dtypes=(*FLOATS, "int32"),
    lacks={"warp": ADDS_IN_PLACE, "numba_cuda": ADDS_IN_PLACE, "numba_cuda_mlir": ADDS_IN_PLACE},
    sample=sample,
    edges=edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (np.ones(5, np.float32), np.zeros(4, np.int32), np.ones(1, np.float32), np.zeros(3, np.float32)),
            {
                "jnp": Failure(ValueError, "Incompatible (types|shapes)"),
                **value_errors(numba_cpu.LENGTHS, in_launches=()),
            },
        ),
    ),
    gradient=Gradient(inputs=(0, 2, 3)),
    bytes_read=total_bytes,
    bytes_written=lambda values, targets, scale, acc: total_bytes(acc),
    flops=lambda values, targets, scale, acc: 2 * values.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**22,)),
)
