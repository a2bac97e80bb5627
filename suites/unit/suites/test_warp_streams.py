"""Element-wise Warp kernels on tiles have code of their own, and a block for each tile."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from suites.backends.backend import Backend
from suites.backends.warp import STREAM_TILE, kernel_with, per_stream_tile, stream, wp
from suites.mutants import mutants
from suites.ops import operators

SIZES = (1, STREAM_TILE - 1, STREAM_TILE, 2 * STREAM_TILE + 1)


def applied(kernel, x):
    (result,) = bridge.jax_kernel(kernel, **per_stream_tile([x], [x]))(x)
    return np.asarray(result)


def test_kernels_of_equal_text_with_other_operations_have_their_own_code():
    def make(step):
        offset = wp.float32(step)

        @wp.func
        def moved(x: wp.float32):
            return x + offset

        return stream(moved, "float32", 1)

    x = jnp.arange(10, dtype=jnp.float32)
    assert np.array_equal(applied(make(1), x), x + 1)
    assert np.array_equal(applied(make(2), x), x + 2)


def test_operations_give_a_kernel_its_name():
    @wp.func
    def halved(x: wp.float32):
        return x / wp.float32(2)

    @wp.func
    def doubled(x: wp.float32):
        return x * wp.float32(2)

    def named(*operations):
        def kernel(x: wp.array(dtype=wp.float32)):
            wp.tid()

        return kernel_with(*operations)(kernel).key

    assert named(halved) == named(halved)
    assert len({named(halved), named(doubled), named(halved, doubled)}) == 3


@pytest.mark.parametrize("size", SIZES)
def test_launch_has_a_block_for_each_tile(size):
    launch = per_stream_tile([], [np.zeros(size)])
    assert launch["launch_dims"][0] == math.ceil(size / STREAM_TILE)


def test_mutant_launches_a_block_less():
    good, mutant = operators()["relu"], mutants()["relu~lost_tile"].operator
    (out,) = good.outputs(np.zeros(2 * STREAM_TILE + 1, np.float32))
    launches = [each.kernels[Backend.WARP_TILE].options([], [out])["launch_dims"] for each in (good, mutant)]
    assert [blocks for blocks, _ in launches] == [3, 2]
