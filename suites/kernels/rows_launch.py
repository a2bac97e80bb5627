"""Says how a kernel in a tile language is launched on the rows of a matrix."""

from __future__ import annotations

from typing import Any


def rows_launch(shape: tuple[int, int], *, most: int = 1 << 20, rows: int = 0, block: int = 0) -> dict[str, Any]:
    """The grid and the block: short rows share a program, and long ones are cut where the kernel allows it.

    Args:
        shape: The rows and columns of the matrix.
        most: Most columns of a block.
        rows: Rows of a block, instead of the default.
        block: Columns of a block, likewise.
    """
    height, width = shape
    block = block or min(most, 1 << max(width - 1, 0).bit_length())
    rows = rows or max(1, 4096 // block)
    return {"grid": (-(-height // rows), -(-width // block)) if height and width else 0, "ROWS": rows, "BLOCK": block}


def triton_rows_launch(shape: tuple[int, int], warps: int = 0, **chosen: int) -> dict[str, Any]:
    """The same for Triton, which is told the shape, and the warps: by default one for 1024 elements of a block."""
    launch = rows_launch(shape, **chosen)
    warps = warps or min(16, max(4, launch["ROWS"] * launch["BLOCK"] // 1024))
    return {**launch, "rows": shape[0], "columns": shape[1], "num_warps": warps}
