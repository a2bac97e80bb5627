"""Kernels of cumsum in Triton: the first adds up each block, the second scans a block and adds the sums before it."""

import jax

from bridge import triton_kernel
from suites.backends.triton import jit, tl, widened
from suites.kernels.half_precision import wide

BLOCK = 4096


@jit
def sums_triton(x, sums, size, BLOCK: "tl.constexpr"):
    block = tl.program_id(0).to(tl.int64)
    i = block * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + block, tl.sum(widened(tl.load(x + i, i < size, other=0)), axis=0))


@jit
def scan_triton(x, sums, out, size, BLOCK: "tl.constexpr"):
    block = tl.program_id(0).to(tl.int64)
    i = block * BLOCK + tl.arange(0, BLOCK)
    before = tl.zeros((BLOCK,), sums.dtype.element_ty)
    for first in range(0, block, BLOCK):
        j = first + tl.arange(0, BLOCK)
        before += tl.load(sums + j, j < block, other=0)
    here = widened(tl.load(x + i, i < size, other=0))
    tl.store(out + i, tl.sum(before, axis=0) + tl.cumsum(here, axis=0), i < size)


def cumsum_triton(inputs, outs):
    (out,) = outs
    blocks = -(-out.size // BLOCK)
    launch = {"grid": blocks, "size": out.size, "BLOCK": BLOCK, "num_warps": 8}
    sums = triton_kernel(sums_triton, jax.ShapeDtypeStruct((blocks,), wide(out.dtype)), **launch)
    scan = triton_kernel(scan_triton, out, **launch)
    return lambda x: scan(x, sums(x))
