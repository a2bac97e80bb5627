"""The kernel of matmul in Triton: a program takes tiles of out, in groups that share rows of A and columns of B.

Tensor cores of Hopper read a factor of 8 or 32 bits only with neighbours along the depth side by side (PTX: wgmma
transposes numbers of 16 bits alone). So there the kernel takes a large B transposed.
"""

from suites.backends import triton as blocks
from suites.backends.triton import jit, tl
from suites.ops.matmul.fitting import fitting

EIGHT_BITS = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 128, "GROUP": 8, "num_warps": 8, "num_stages": 3, "programs": 132}

TF32 = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "GROUP": 8, "num_warps": 8, "num_stages": 4, "programs": 132}

HALF = (
    {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3, "programs": 132},
    {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "GROUP": 8, "num_warps": 4, "num_stages": 3},
    {"ROWS": 64, "COLUMNS": 128, "DEPTH": 64, "GROUP": 8, "num_warps": 4, "num_stages": 4, "DESCRIBED": False},
    {"ROWS": 64, "COLUMNS": 64, "DEPTH": 64, "GROUP": 8, "num_warps": 4, "num_stages": 4, "DESCRIBED": False},
)
"""Of numbers of 16 bits. For few tiles, it takes longer to make descriptors than they save."""

SMALL = {"ROWS": 64, "COLUMNS": 64, "DEPTH": 32, "GROUP": 8, "num_warps": 4, "num_stages": 3}

TRANSPOSED = 512
"""Least rows and columns for which it pays to transpose B before."""


@jit
def _tile(
    left, right, target, tile, rows, depth, columns, ROWS: "tl.constexpr", COLUMNS: "tl.constexpr",
    DEPTH: "tl.constexpr", GROUP: "tl.constexpr", DESCRIBED: "tl.constexpr", PRECISION: "tl.constexpr",
    TRANSPOSED: "tl.constexpr", wide: "tl.constexpr", narrow: "tl.constexpr",
):  # fmt: skip
    """Computes a tile of out, by its number."""
    down, across = tl.cdiv(rows, ROWS), tl.cdiv(columns, COLUMNS)
    first = tile // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    place = tile % (GROUP * across)
    i, j = (first + place % height) * ROWS, place // height * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), wide)
    for k in range(0, depth, DEPTH):
        a = blocks.load(left, i, k, rows, depth, depth, ROWS, DEPTH, DESCRIBED)
        if TRANSPOSED:
            b = tl.trans(blocks.load(right, j, k, columns, depth, depth, COLUMNS, DEPTH, DESCRIBED))
        else:
            b = blocks.load(right, k, j, depth, columns, columns, DEPTH, COLUMNS, DESCRIBED)
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=wide)
    blocks.store(target, total.to(narrow), i, j, rows, columns, columns, ROWS, COLUMNS, DESCRIBED)


@jit
def matmul_triton(
    A, B, out, rows, depth, columns, ROWS: "tl.constexpr", COLUMNS: "tl.constexpr", DEPTH: "tl.constexpr",
    GROUP: "tl.constexpr", DESCRIBED: "tl.constexpr", PERSISTENT: "tl.constexpr", PRECISION: "tl.constexpr",
    TRANSPOSED: "tl.constexpr",
):  # fmt: skip
    narrow: tl.constexpr = out.dtype.element_ty
    wide: tl.constexpr = tl.float64 if narrow == tl.float64 else tl.float32
    left = blocks.matrix(A, rows, depth, depth, ROWS, DEPTH, DESCRIBED)
    if TRANSPOSED:
        right = blocks.matrix(B, columns, depth, depth, COLUMNS, DEPTH, DESCRIBED)
    else:
        right = blocks.matrix(B, depth, columns, columns, DEPTH, COLUMNS, DESCRIBED)
    target = blocks.matrix(out, rows, columns, columns, ROWS, COLUMNS, DESCRIBED)
    if PERSISTENT:
        tiles = tl.cdiv(rows, ROWS) * tl.cdiv(columns, COLUMNS)
        for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
            _tile(
                left, right, target, tile, rows, depth, columns, ROWS, COLUMNS, DEPTH, GROUP, DESCRIBED, PRECISION,
                TRANSPOSED, wide, narrow,
            )  # fmt: skip
    else:
        tile = tl.program_id(0)
        _tile(
            left, right, target, tile, rows, depth, columns, ROWS, COLUMNS, DEPTH, GROUP, DESCRIBED, PRECISION,
            TRANSPOSED, wide, narrow,
        )  # fmt: skip


def launch(inputs, outs, precision="ieee", **chosen):
    """How to launch the kernel, by default with the fastest choice for the dtype and size.

    ``programs`` programs share the tiles; without it each tile has its own. ``precision`` is that of float32: ``ieee``
    or ``tf32``.
    """
    (rows, depth), (_, columns) = inputs[0].shape, inputs[1].shape
    bits = 8 * inputs[0].dtype.itemsize
    by_bits = {8: (EIGHT_BITS, SMALL), 16: HALF, 32: (TF32, SMALL) if precision == "tf32" else (SMALL,)}
    chosen = dict(chosen or fitting(by_bits.get(bits, (SMALL,)), rows, columns))
    programs = chosen.pop("programs", None)
    tiles = -(-rows // chosen["ROWS"]) * -(-columns // chosen["COLUMNS"]) if outs[0].size else 0
    transposed = (bits == 8 or precision == "tf32") and min(rows, columns) >= TRANSPOSED
    moved = (inputs[0], inputs[0] if transposed else inputs[1], *outs)  # as rows of the depth, B has those of A
    described = (bits <= 16 or transposed) and all(map(blocks.has_descriptors, moved))
    return {
        "arrange": (lambda A, B: (A, B.T)) if transposed else None, "TRANSPOSED": transposed,
        "grid": min(tiles, programs or tiles), "rows": rows, "depth": depth, "columns": columns,
        "DESCRIBED": described, "PERSISTENT": programs is not None, "PRECISION": precision, **chosen,
    }  # fmt: skip
