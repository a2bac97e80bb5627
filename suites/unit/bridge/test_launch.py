"""Launch shapes: what the launch arguments mean, and which are refused."""

import jax
import numpy as np
import pytest

from bridge import LaunchError
from bridge.cuda.launch_shape import LaunchShape, check_covers, check_limits, launch_shape
from bridge.ffi.cuda.devices import Limits


@pytest.mark.parametrize(
    ("arguments", "grid", "block"),
    [
        ({"grid": 4, "block": 256}, (4, 1, 1), (256, 1, 1)),
        ({"grid": [1, np.int64(2), 3], "block": np.int64(32)}, (1, 2, 3), (32, 1, 1)),
        ({"launch_dims": (64, 65)}, (4, 5, 1), (16, 16, 1)),
        ({"launch_dims": (9, 9, 9)}, (2, 2, 3), (8, 8, 4)),
        ({"launch_dims": 0}, (0, 1, 1), (256, 1, 1)),
        ({"launch_dims": (2**31 - 1) * 1024, "threads_per_block": 1024}, (2**31 - 1, 1, 1), (1024, 1, 1)),
    ],
)
def test_arguments_become_a_grid_and_a_block(arguments, grid, block):
    assert launch_shape("k", **arguments) == LaunchShape(grid, block, 0)


@pytest.mark.parametrize(
    ("shape", "static", "message"),
    [
        (LaunchShape((1, 1, 1), (1025, 1, 1)), 0, "a block of 1025x1x1 is 1025 threads, but .* at most 1024"),
        (LaunchShape((1, 1, 1), (1, 1, 65)), 0, "the block 1x1x65 has 65 in z, but the device allows 64"),
        (LaunchShape((1, 65536, 1), (1, 1, 1)), 0, "1x65536x1 has 65536 in y.*Put the largest dimension first"),
        (LaunchShape((1, 1, 1), (1, 1, 1), 49152), 1, "49152 bytes of dynamic and 1 of static shared memory"),
    ],
)
def test_limits_of_the_device(shape, static, message):
    with pytest.raises(LaunchError, match=message):
        check_limits("k", shape, Limits(), static)


def test_a_grid_of_nothing_is_refused_unless_there_is_nothing_to_write():
    nothing = launch_shape("k", launch_dims=(0, 5))
    with pytest.raises(LaunchError, match=r"the grid 0x1x1 launches nothing, so the outputs would not be written"):
        check_covers("k", nothing, [jax.ShapeDtypeStruct((0,), np.float32), jax.ShapeDtypeStruct((3,), np.float32)])
    check_covers("k", nothing, [jax.ShapeDtypeStruct((0, 3), np.float32)])
