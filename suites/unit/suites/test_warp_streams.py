"""Element-wise Warp kernels have code of their own, and a block for each tile; products in vectors are right."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from suites.backends.backend import Backend
from suites.backends.warp import STREAM_TILE, kernel_with, per_stream_tile, stream, wp
from suites.mutants import mutants
from suites.numerics.precision import precision
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


@pytest.mark.parametrize("columns", [32, 36, 40, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_many_columns_and_their_gradients_are_right(columns, dtype):
    operator = operators()["csr_matmat"]
    random = np.random.default_rng(3)
    data, indices, indptr, _ = operator.sample(dtype, 700, 0)
    X = random.normal(size=(indptr.size - 1, columns)).astype(dtype)
    weights = random.normal(size=X.shape).astype(dtype)
    with precision(dtype):
        product = operator.build(Backend.WARP, (data, indices, indptr, X))

        def results(product):
            def weighted(data, X):
                return (weights * product(data, indices, indptr, X)[0]).sum()

            return product(data, indices, indptr, X)[0], *jax.grad(weighted, (0, 1))(data, X)

        for found, expected in zip(results(product), results(operator.reference), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


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
