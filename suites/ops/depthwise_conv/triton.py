"""The kernel of depthwise_conv in Triton: a program for a block of a channel."""

from suites.backends.triton import jit, tl, widened
from suites.kernels.rows_launch import triton_rows_launch


@jit
def depthwise_conv_triton(
    x, taps, out, rows, columns, TAPS: "tl.constexpr", ROWS: "tl.constexpr", BLOCK: "tl.constexpr"
):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    at, inside = i.to(tl.int64) * columns + j, (i < rows) & (j < columns)
    total = widened(tl.zeros((ROWS, BLOCK), out.dtype.element_ty))
    for tap in tl.static_range(TAPS):
        before = TAPS - 1 - tap
        here = widened(tl.load(x + at - before, inside & (j >= before), other=0))
        total += here * tl.load(taps + i * TAPS + tap, i < rows, other=0)
    tl.store(out + at, total, inside)


def launch(inputs, outs, **chosen):
    return {"TAPS": inputs[1].shape[1], **triton_rows_launch(outs[0].shape, most=2048, **chosen)}
