"""Holds the kernels of add for the vendors' own calls. Their languages read annotations, which must not be text."""

# mypy: ignore-errors

from jax.experimental import pallas as pl

from suites.backends.pallas import BLOCK
from suites.backends.triton import TritonKernel, jit, tl


def cutlass_add(inputs, outs):
    """A call of CuTe DSL: a thread for each element."""
    from cutlass import cute
    from cutlass.jax import cutlass_call

    @cute.kernel
    def add(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor):
        i = cute.arch.block_idx()[0] * cute.arch.block_dim()[0] + cute.arch.thread_idx()[0]
        if i < cute.size(out):
            out[i] = x[i] + y[i]

    @cute.jit
    def launch(stream, x, y, out):
        add(x, y, out).launch(grid=((cute.size(out) + 255) // 256, 1, 1), block=(256, 1, 1), stream=stream)

    return cutlass_call(launch, output_shape_dtype=outs[0])


def cutile_add(inputs, outs):
    """A call of cuTile: a block of threads for each tile."""
    import cuda.tile as ct
    from cuda.tile.jax import OutputPlaceholder, cutile_call

    @ct.kernel
    def add(x, y, out, BLOCK: ct.Constant[int]):
        i = ct.bid(0)
        ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(BLOCK,)) + ct.load(y, index=(i,), shape=(BLOCK,)))

    (out,) = outs
    grid = (pl.cdiv(out.size, BLOCK),)
    return lambda x, y: cutile_call(grid, add, (x, y, OutputPlaceholder(out.shape, out.dtype), BLOCK))


@jit
def _add(x, y, out, BLOCK: "tl.constexpr"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + tl.load(y + i))


TRITON_ADD = TritonKernel(_add, lambda inputs, outs: {"grid": outs[0].size // BLOCK, "BLOCK": BLOCK})
"""For whole blocks."""
