"""The kernel of depthwise_conv in cuTile: a block for a part of a channel. Elements before the first are zero."""

from suites.backends.cutile import ct, kernel, widened
from suites.kernels.rows_launch import rows_launch


@kernel
def depthwise_conv_cutile(x, taps, out, TAPS: "ct.Constant[int]", ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    i = ct.bid(0) * ROWS + ct.arange(ROWS, dtype=ct.int32)[:, None]
    j = ct.bid(1) * BLOCK + ct.arange(BLOCK, dtype=ct.int32)[None, :]
    total = widened(ct.zeros((ROWS, BLOCK), out.dtype))
    for tap in range(TAPS):
        total += widened(ct.gather(x, (i, j - (TAPS - 1 - tap)))) * widened(ct.gather(taps, (i, tap)))
    ct.scatter(out, (i, j), ct.astype(total, out.dtype))


def launch(inputs, outs, **chosen):
    return {"TAPS": inputs[1].shape[1], **rows_launch(outs[0].shape, most=2048, **chosen)}
