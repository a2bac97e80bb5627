"""The kernel of depthwise_conv in cuTile: a block for a part of some channels."""

from suites.backends.cutile import ct, kernel
from suites.kernels.rows_launch import rows_launch


@kernel
def depthwise_conv_cutile(x, taps, out, TAPS: "ct.Constant[int]", ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    wide = ct.float64 if out.dtype == ct.float64 else ct.float32
    i, j = ct.bid(0), ct.bid(1)
    channels = i * ROWS + ct.arange(ROWS, dtype=ct.int32)[:, None]
    places = j * BLOCK + ct.arange(BLOCK, dtype=ct.int32)[None, :]
    total = ct.zeros((ROWS, BLOCK), wide)
    for tap in range(TAPS):
        here = ct.astype(ct.gather(x, (channels, places + (tap + 1 - TAPS))), wide)
        total += here * ct.astype(ct.gather(taps, (channels, tap)), wide)
    ct.store(out, (i, j), ct.astype(total, out.dtype))


def launch(inputs, outs, **chosen):
    return {"TAPS": inputs[1].shape[1], **rows_launch(outs[0].shape, most=2048, **chosen)}
