"""A kernel in Triton, for tests."""

# mypy: disable-error-code="name-defined"

from suites.backends.triton import jit, tl


@jit
def block_copy(x, out, n, BLOCK: "tl.constexpr"):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n), i < n)
