"""The kernel of quantise in Triton: a program for some rows, which it reads once."""

from suites.backends.triton import jit, libdevice, tl, widened
from suites.kernels.rows_launch import triton_rows_launch
from suites.ops.quantise.numba_cpu import LEVELS, TINY


@jit
def quantise_triton(
    x, quantised, scales, rows, columns, TINY: "tl.constexpr", LEVELS: "tl.constexpr", ROWS: "tl.constexpr",
    BLOCK: "tl.constexpr",
):  # fmt: skip
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)[None, :]
    at, inside = i.to(tl.int64)[:, None] * columns + j, (i[:, None] < rows) & (j < columns)
    row = widened(tl.load(x + at, inside, other=0))
    scale = tl.maximum(tl.max(tl.abs(row), axis=1), TINY) / LEVELS
    tl.store(scales + i, scale, i < rows)
    tl.store(quantised + at, libdevice.rint(row / scale[:, None]).to(tl.int8), inside)


def launch(inputs, outs, **chosen):
    return {"TINY": TINY, "LEVELS": LEVELS, **triton_rows_launch(outs[0].shape, **chosen)}
