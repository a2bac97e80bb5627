"""Says how a kernel in a tile language is launched on the rows of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def rows_launch(
    shape: tuple[int, int], *, most: int = 1 << 20, elements: int = 4096, rows: int = 0, block: int = 0
) -> dict[str, Any]:
    """The grid and the block: short rows share a program, and long ones are cut where the kernel allows it.

    Args:
        shape: The rows and columns of the matrix.
        most: Most columns of a block.
        elements: Elements of a block of short rows.
        rows: Rows of a block, instead of the default.
        block: Columns of a block, likewise.
    """
    height, width = shape
    block = block or min(most, 1 << max(width - 1, 0).bit_length())
    rows = rows or max(1, elements // block)
    return {"grid": (-(-height // rows), -(-width // block)) if height and width else 0, "ROWS": rows, "BLOCK": block}


def cutile_rows_launch(inputs: Sequence[Any], outs: Sequence[Any], half_rows: int = 1, **chosen: Any) -> dict[str, Any]:
    """The same for cuTile: eight warps share a block. Where results have at most 16 bits, eight or four blocks an SM.

    Args:
        half_rows: Rows of a block where the input has 16 bits, and a row 1024 elements or more.
    """
    half, columns = outs[0].dtype.itemsize <= 2, outs[0].shape[1]
    hints = {"occupancy": 8 if columns <= 4096 else 4} if half else {"num_worker_warps": 8}
    if inputs[0].dtype.itemsize <= 2 and columns >= 1024:
        chosen = {"rows": half_rows, **chosen}
    return {"hints": hints, **rows_launch(outs[0].shape, **chosen)}


def triton_rows_launch(shape: tuple[int, int], warps: int = 0, **chosen: int) -> dict[str, Any]:
    """The same for Triton, which is told the shape, and the warps: by default one for 1024 elements of a block."""
    launch = rows_launch(shape, **chosen)
    warps = warps or min(16, max(4, launch["ROWS"] * launch["BLOCK"] // 1024))
    return {**launch, "rows": shape[0], "columns": shape[1], "num_warps": warps}
