"""matmul by the kernel for Hopper GPUs that JAX ships, in Pallas on Mosaic GPU."""

from inspect import signature

from suites.vendors.shipped import padded, shipped

LARGE = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "max_concurrent_steps": 4, "grid_tile_width": 16}
SMALL = {"tile_m": 64, "tile_n": 64, "tile_k": 64, "max_concurrent_steps": 2}


def matmul_mosaic(inputs, outs, **chosen):
    """Calls the kernel on whole tiles. Two groups of warps have a tile each, side by side."""
    rows, columns = outs[0].shape
    chosen = {"epi_tile_m": 64, "epi_tile_n": 64, **(chosen or (LARGE if min(rows, columns) >= 2048 else SMALL))}
    depth = chosen["tile_k"] * chosen["max_concurrent_steps"]

    def call(A, B):
        library = shipped("hopper_matmul_mgpu")
        config = library.TuningConfig(grid_minor_dim=library.MatmulDimension.M, **chosen)
        a, b = padded(A, chosen["tile_m"], depth), padded(B, depth, 2 * chosen["tile_n"])
        # Since jax 0.10 it can also add a matrix.
        added = [None] if "c" in signature(library.matmul).parameters else []
        return [library.matmul(a, b, *added, config)[:rows, :columns]]

    return call
