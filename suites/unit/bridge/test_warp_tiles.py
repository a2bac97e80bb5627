"""jax_kernel on tiles: on the CPU one thread does the work of a block, or all of them do where Warp is told so."""

import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import jax_kernel
from suites.backends.warp_blocks import wp
from suites.unit import processes
from suites.unit.bridge import warp_kernels as kernels
from suites.unit.bridge.warp_kernels import BLOCK, TILE

ROWS = 5
X = jnp.asarray(np.random.default_rng(4).integers(-9, 9, (ROWS, TILE)), jnp.float32)
DIMS: dict[str, Any] = {"launch_dims": (ROWS, BLOCK), "block_dim": BLOCK}

sums = jax_kernel(kernels.tile_sums, **DIMS, output_dims=ROWS)
total = jax_kernel(kernels.tile_total, **DIMS, in_out_argnames=["total"])


def test_a_block_works_on_a_tile():
    np.testing.assert_array_equal(sums(X)[0], X.sum(axis=1))


def test_what_a_tile_adds_is_added_once():
    np.testing.assert_array_equal(total(X, jnp.ones(1))[0], [1 + X.sum()])


@pytest.mark.parametrize("block", [1, 4, 64])
def test_the_size_of_the_block_does_not_matter(block):
    call = jax_kernel(kernels.tile_total, launch_dims=(ROWS, block), block_dim=block, in_out_argnames=["total"])
    np.testing.assert_array_equal(call(X, jnp.zeros(1))[0], [X.sum()])


def test_a_launch_of_blocks_without_their_threads():
    call = jax_kernel(kernels.tile_total, launch_dims=ROWS, in_out_argnames=["total"])
    np.testing.assert_array_equal(call(X, jnp.zeros(1))[0], [X.sum()])


def test_batches_and_gradients():
    xs = jnp.stack([X, 2 * X, 3 * X])
    np.testing.assert_array_equal(jax.vmap(sums)(xs)[0], xs.sum(axis=2))
    weights = jnp.arange(1.0, 1 + ROWS)
    gradient = jax.jit(jax.grad(lambda x: (sums(x * x)[0] * weights).sum()))(X)
    np.testing.assert_array_equal(gradient, 2 * weights[:, None] * X)
    gradients = jax.jit(jax.grad(lambda x, start: (total(x * x, start)[0] * 3).sum(), (0, 1)))(X, jnp.ones(1))
    np.testing.assert_array_equal(gradients[0], 6 * X)
    np.testing.assert_array_equal(gradients[1], [3])


def test_tiles_in_a_function_that_the_kernel_calls():
    @wp.func
    def row_sum(x: wp.array(dtype=float)):
        return wp.tile_sum(wp.tile_load(x, shape=TILE))

    @wp.kernel(module="unique", enable_backward=False)
    def indirect(x: wp.array2d(dtype=float), total: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(total, 0, wp.tile_extract(row_sum(x[i]), 0))

    call = jax_kernel(indirect, **DIMS, in_out_argnames=["total"])
    np.testing.assert_array_equal(call(X, jnp.zeros(1))[0], [X.sum()])


def test_a_kernel_that_only_mentions_tiles_runs_every_thread():
    call = jax_kernel(kernels.count_tiles, **DIMS, in_out_argnames=["tiles"])
    np.testing.assert_array_equal(call(jnp.zeros(ROWS))[0], jnp.full(ROWS, BLOCK))


def test_a_kernel_without_tiles_runs_every_thread_of_a_block():
    dims = {"launch_dims": (4, BLOCK), "output_dims": 4, "block_dim": BLOCK}
    call = jax_kernel(kernels.exchange, num_outputs=3, in_out_argnames=["old", "total"], **dims)
    _, added, _ = call(jnp.ones(4), jnp.zeros(4), jnp.zeros(1))
    assert float(added[0]) == 4 * BLOCK


COOPERATIVE = textwrap.dedent(
    """
    import threading
    import jax, jax.numpy as jnp, numpy as np
    from suites.unit.bridge import warp_kernels as kernels
    from suites.backends.warp_blocks import wp
    from bridge import jax_kernel

    wp.config.enable_cpu_blocks = True
    jax.config.update("jax_num_cpu_devices", 4)
    rows, tile, block = 5, kernels.TILE, kernels.BLOCK
    x = jnp.arange(float(rows * tile)).reshape(rows, tile)
    dims = {"launch_dims": (rows, block), "block_dim": block}
    total = jax_kernel(kernels.tile_total, **dims, in_out_argnames=["total"])
    squares = jax_kernel(kernels.tile_squares, **dims, output_dims=(rows, tile, tile))
    print(float(total(x, jnp.ones(1))[0][0] - x.sum()))
    print(np.array_equal(jax.grad(lambda x: total(x * x, jnp.ones(1))[0].sum())(x), 2 * x))

    wrong = []

    def work(index):
        matrices = np.random.default_rng(index).integers(0, 9, (rows, tile, tile)).astype(np.float32)
        given = jax.device_put(matrices, jax.devices("cpu")[index % 4])
        wrong.extend(index for _ in range(30) if not np.array_equal(squares(given)[0], matrices @ matrices))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(wrong)
    """
)


@pytest.mark.skipif(
    not hasattr(wp.config, "enable_cpu_blocks"), reason=f"in Warp {wp.__version__} a block of the CPU is one thread"
)
def test_blocks_of_several_threads_on_the_cpu():
    assert processes.output("-c", COOPERATIVE).splitlines() == ["1.0", "True", "[]"]
