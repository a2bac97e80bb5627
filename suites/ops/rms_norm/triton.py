"""The kernel of rms_norm in Triton: a program for each row."""

from suites.backends.triton import jit, tl, widened
from suites.ops.rms_norm.numba_cpu import EPSILON


@jit
def rms_norm_triton(x, weight, out, columns, EPSILON: "tl.constexpr", BLOCK: "tl.constexpr"):
    j = tl.arange(0, BLOCK)
    first = tl.program_id(0).to(tl.int64) * columns
    row = widened(tl.load(x + first + j, j < columns, other=0))
    mean = tl.sum(row * row, axis=0) / columns.to(row.dtype)
    scaled = row * (1 / tl.sqrt(mean + EPSILON)) * tl.load(weight + j, j < columns)
    tl.store(out + first + j, scaled, j < columns)


def launch(inputs, outs):
    rows, columns = outs[0].shape
    block = 1 << max(columns - 1, 0).bit_length()
    warps = 4 if block < 4096 else 8
    return {
        "grid": rows if columns else 0, "columns": columns, "EPSILON": EPSILON, "BLOCK": block, "num_warps": warps
    }  # fmt: skip
