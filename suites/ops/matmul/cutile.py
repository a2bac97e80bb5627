"""The kernel of matmul in cuTile: a block takes tiles of out, in groups that share rows of A and columns of B.

As in Triton, it takes a large B transposed where its numbers have 8 bits or are TF32.
"""

from suites.backends.cutile import ct, kernel
from suites.ops.matmul.fitting import fitting
from suites.ops.matmul.triton import TRANSPOSED

HALF = (
    {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "GROUP": 8, "programs": 132, "hints": {"num_worker_warps": 8}},
    {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "GROUP": 8},
    {"ROWS": 128, "COLUMNS": 64, "DEPTH": 128, "GROUP": 8},
    {"ROWS": 64, "COLUMNS": 64, "DEPTH": 128, "GROUP": 8},
)
"""Of numbers of 16 bits. With four warps, a thread has no registers for its part of the largest tile."""

EIGHT_BITS = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 128, "GROUP": 8, "hints": {"num_worker_warps": 8}}

TF32 = (
    {"ROWS": 128, "COLUMNS": 256, "DEPTH": 32, "GROUP": 8, "hints": {"num_worker_warps": 8}},
    {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "GROUP": 8},
)

SMALL = {"ROWS": 64, "COLUMNS": 64, "DEPTH": 32, "GROUP": 8}


@kernel
def matmul_cutile(
    A, B, out, ROWS: "ct.Constant[int]", COLUMNS: "ct.Constant[int]", DEPTH: "ct.Constant[int]",
    GROUP: "ct.Constant[int]", TF32: "ct.Constant[bool]", TRANSPOSED: "ct.Constant[bool]",
):  # fmt: skip
    wide = ct.float64 if out.dtype == ct.float64 else ct.float32
    down, across = ct.cdiv(A.shape[0], ROWS), ct.cdiv(out.shape[1], COLUMNS)
    zero = ct.PaddingMode.ZERO
    for tile in range(ct.bid(0), down * across, ct.num_blocks(0)):
        first = tile // (GROUP * across) * GROUP
        height = min(down - first, GROUP)
        place = tile % (GROUP * across)
        i, j = first + place % height, place // height
        total = ct.zeros((ROWS, COLUMNS), wide)
        for k in range(ct.cdiv(A.shape[1], DEPTH)):
            a = ct.load(A, (i, k), (ROWS, DEPTH), padding_mode=zero)
            if TRANSPOSED:
                b = ct.transpose(ct.load(B, (j, k), (COLUMNS, DEPTH), padding_mode=zero))
            else:
                b = ct.load(B, (k, j), (DEPTH, COLUMNS), padding_mode=zero)
            if TF32:
                a, b = ct.astype(a, ct.tfloat32), ct.astype(b, ct.tfloat32)
            total = ct.mma(a, b, total)
        ct.store(out, (i, j), ct.astype(total, out.dtype))


def launch(inputs, outs, tf32=False, **chosen):
    """How to launch the kernel, by default with the fastest choice for the dtype and size.

    Args:
        tf32: Whether float32 is multiplied as TF32.
        chosen: The constants and hints, and ``programs``: how many blocks share the tiles, instead of one for each.
    """
    rows, columns = outs[0].shape
    size = inputs[0].dtype.itemsize
    by_size = {1: (EIGHT_BITS, SMALL), 2: HALF, 4: TF32 if tf32 else (SMALL,)}
    chosen = dict(chosen or fitting(by_size.get(size, (SMALL,)), rows, columns))
    programs = chosen.pop("programs", None)
    tiles = -(-rows // chosen["ROWS"]) * -(-columns // chosen["COLUMNS"]) if outs[0].size else 0
    transposed = (size == 1 or tf32) and min(rows, columns) >= TRANSPOSED
    arrange = (lambda A, B: (A, B.T)) if transposed else None
    return {"grid": min(tiles, programs or tiles), "TF32": tf32, "TRANSPOSED": transposed, "arrange": arrange, **chosen}
