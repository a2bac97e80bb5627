"""Kernels of sum in cuTile: the first adds up a part of x in each block, the second adds up the parts."""

import jax

from bridge import cutile_kernel
from suites.backends.cutile import ct, kernel

PROGRAMS = 1024


@kernel
def sum_cutile(x, out, BLOCK: "ct.Constant[int]"):
    total = ct.zeros((BLOCK,), out.dtype)
    for tile in range(ct.bid(0), ct.cdiv(x.shape[0], BLOCK), ct.num_blocks(0)):
        total += ct.astype(ct.load(x, tile, BLOCK, padding_mode=ct.PaddingMode.ZERO), out.dtype)
    ct.store(out, ct.bid(0), ct.sum(total, axis=0, keepdims=True))


@kernel
def parts_cutile(parts, out, BLOCK: "ct.Constant[int]"):
    total = ct.load(parts, 0, BLOCK, padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, 0, ct.astype(ct.sum(total, axis=0, keepdims=True), out.dtype))


def total_cutile(inputs, outs, programs=PROGRAMS, block=4096):
    ((size,), dtype) = inputs[0].shape, inputs[0].dtype
    parts = max(1, min(programs, -(-size // block)))
    sums = jax.ShapeDtypeStruct((parts,), "float32" if dtype.itemsize == 2 else dtype)
    first = cutile_kernel(sum_cutile, sums, grid=parts, BLOCK=block)
    second = cutile_kernel(parts_cutile, outs[0], grid=1, BLOCK=1 << (parts - 1).bit_length())
    return lambda x: second(first(x))
