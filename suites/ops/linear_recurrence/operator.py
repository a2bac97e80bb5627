"""linear_recurrence: ``h[t] = a[t] * h[t-1] + b[t]`` along the first axis of arrays of steps and channels.

``h[-1]`` is ``initial``, one state for each channel. Nominal size is the number of elements of ``a``. Precondition:
products of ``a`` over any consecutive steps are finite, because kernels that combine steps multiply them.
"""

import jax
import numpy as np

from suites import (
    CudaKernel,
    Domain,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    Sizes,
    WarpCallable,
    total_bytes,
    value_errors,
)
from suites.kernels.half_precision import FLOATS, TUNED, in_float32
from suites.ops.linear_recurrence import numba_cpu, numba_cuda, warp
from suites.ops.linear_recurrence.samples import edges, sample


def _one_by_one(a, b, initial):
    return jax.lax.scan(lambda h, now: (now[0] * h + now[1],) * 2, initial, (a, b))[1]


def _all_at_once(a, b, initial):
    def combine(earlier, later):
        return earlier[0] * later[0], earlier[1] * later[0] + later[1]

    return jax.lax.associative_scan(combine, (a, b.at[0].add(a[0] * initial)))[1]


def _reference(a, b, initial):
    if not a.shape[0]:
        return [b]
    # The fastest ways: on the CPU a loop takes a fifth of the time of a tree. On a GPU it would launch each step.
    return [jax.lax.platform_dependent(a, b, initial, cpu=_one_by_one, default=_all_at_once)]


def _refused(error, words):
    return {"jnp": Failure(error, words), **value_errors("linear_recurrence: a and b must have one shape")}


def _zeros(*shapes):
    return lambda: tuple(np.zeros(shape, np.float32) for shape in shapes)


OPERATOR = Operator(
    name="linear_recurrence",
    version=1,
    outputs=lambda a, b, initial: [jax.ShapeDtypeStruct(b.shape, b.dtype)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.linear_recurrence,
        "numba_parallel": numba_cpu.linear_recurrence_parallel,
        "numba_cuda": CudaKernel(numba_cuda.linear_recurrence_cuda, numba_cuda.launch),
        "warp": WarpCallable(warp.linear_recurrence_warp, calls=3),
    },
    dtypes=FLOATS,
    lacks={"warp": TUNED, "numba_cuda": TUNED},
    sample=sample,
    domains={"a": Domain(least=-1, most=1)},  # products of more than that overflow, in another order elsewhere
    edges=edges,
    errors=(
        # The reference is a loop and a tree; JAX 0.10 traces the loop first, JAX 0.11 the tree.
        ErrorCase("fewer_steps", _zeros((4, 3), (5, 3), 3), _refused(ValueError, "leading axis|same first dimension")),
        ErrorCase("more_states", _zeros((4, 3), (4, 3), 2), _refused(TypeError, "incompatible shapes")),
    ),
    # A cotangent follows the same recurrence backwards. The cotangent of a is also multiplied by the state before.
    gradient=Gradient(inputs=(0, 1, 2)),
    bytes_read=total_bytes,
    bytes_written=lambda a, b, initial: total_bytes(b),
    flops=lambda a, b, initial: 2 * a.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**22,)),
)
