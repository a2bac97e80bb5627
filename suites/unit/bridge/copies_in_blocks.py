"""A kernel in Triton and one in cuTile, for tests."""

# mypy: disable-error-code="name-defined"

from suites.backends.cutile import ct, kernel
from suites.backends.triton import jit, tl


@jit
def block_copy(x, out, n, BLOCK: "tl.constexpr"):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n), i < n)


@kernel
def tile_copy(x, out, shift, SIZE: "ct.Constant[int]"):
    i = ct.bid(0)
    ct.store(out, i, ct.load(x, i, SIZE) + shift)
