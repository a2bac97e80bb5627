"""Kernels of sum in Triton: the first adds up a part of x in each program, the second adds up the parts."""

import jax

from bridge import triton_kernel
from suites.backends.triton import jit, tl, widened
from suites.kernels.half_precision import wide

PROGRAMS = 528  # four for each multiprocessor of an H200


@jit
def sum_triton(x, out, size, BLOCK: "tl.constexpr"):
    total = widened(tl.zeros((BLOCK,), x.dtype.element_ty))
    for first in range(tl.program_id(0).to(tl.int64) * BLOCK, size, tl.num_programs(0) * BLOCK):
        i = first + tl.arange(0, BLOCK)
        total += widened(tl.load(x + i, i < size, other=0))
    tl.store(out + tl.program_id(0), tl.sum(total, axis=0))


def total_triton(inputs, outs, programs=PROGRAMS, **chosen):
    ((size,), dtype), chosen = (inputs[0].shape, inputs[0].dtype), chosen or {"BLOCK": 8192, "num_warps": 8}
    parts = max(1, min(programs, -(-size // chosen["BLOCK"])))
    sums = jax.ShapeDtypeStruct((parts,), wide(dtype))
    first = triton_kernel(sum_triton, sums, grid=parts, size=size, **chosen)
    second = triton_kernel(sum_triton, outs[0], grid=1, size=parts, BLOCK=1024)
    return lambda x: second(first(x))
