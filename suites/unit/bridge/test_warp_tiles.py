"""jax_kernel on tiles: on the CPU one thread does the work of a block, in memory that all calls share."""

import contextlib
import ctypes
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import jax_kernel, warp_callable
from bridge.languages.warp import cpu_plan
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels
from suites.unit.bridge.warp_kernels import BLOCK, TILE

ROWS = 5
X = jnp.asarray(np.random.default_rng(4).integers(-9, 9, (ROWS, TILE)), jnp.float32)
DIMS: dict[str, Any] = {"launch_dims": (ROWS, BLOCK), "block_dim": BLOCK}

sums = jax_kernel(kernels.tile_sums, **DIMS, output_dims=ROWS)
total = jax_kernel(kernels.tile_total, **DIMS, in_out_argnames=["total"])


@pytest.mark.parametrize("block", [1, 4, 64])
def test_the_size_of_the_block_does_not_matter(block):
    call = jax_kernel(kernels.tile_total, launch_dims=(ROWS, block), block_dim=block, in_out_argnames=["total"])
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


def test_a_kernel_that_only_mentions_tiles_runs_every_thread():
    call = jax_kernel(kernels.count_tiles, **DIMS, in_out_argnames=["tiles"])
    np.testing.assert_array_equal(call(jnp.zeros(ROWS))[0], jnp.full(ROWS, BLOCK))


def sums_in_a_callable(x: kernels.VECTOR, out: kernels.VECTOR):
    wp.launch(kernels.block_sums, dim=x.shape, inputs=[x, out], block_dim=BLOCK)


@pytest.mark.skipif(not hasattr(wp.config, "enable_cpu_blocks"), reason="this Warp has no blocks on the CPU")
class TestBlocksOnTheCpu:
    x = jnp.arange(1.0, 1 + 4 * BLOCK)
    wanted = (x * x).reshape(4, BLOCK).sum(axis=1)

    @pytest.fixture(autouse=True)
    def enabled(self, monkeypatch):
        monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)

    @pytest.mark.parametrize("debugged", [False, True])
    def test_the_threads_of_a_block_share_a_tile(self, debugged):
        call = jax_kernel(kernels.block_sums, launch_dims=self.x.shape, output_dims=4, block_dim=BLOCK)
        with bridge.debug_mode() if debugged else contextlib.nullcontext():
            np.testing.assert_array_equal(call(self.x)[0], self.wanted)
            np.testing.assert_array_equal(jax.vmap(call)(jnp.stack([self.x, 2 * self.x]))[0][1], 4 * self.wanted)
            gradient = jax.grad(lambda x: (call(x)[0] * jnp.arange(4.0)).sum())(self.x)
        np.testing.assert_array_equal(gradient, 2 * self.x * jnp.repeat(jnp.arange(4.0), BLOCK))

    def test_a_callable_and_a_launch_with_a_dimension_for_threads(self):
        (got,) = warp_callable(sums_in_a_callable, output_dims=4)(self.x)
        np.testing.assert_array_equal(got, self.wanted)
        np.testing.assert_array_equal(sums(X)[0], X.sum(axis=1))
        np.testing.assert_array_equal(warp_callable(squares)(jnp.ones((COUNT, TILE, TILE)))[0], TILE)

    def test_an_eager_call_follows_the_setting_and_code_of_one_thread_has_another_name(self, monkeypatch):
        call = jax_kernel(kernels.block_sums, launch_dims=self.x.shape, output_dims=4, block_dim=BLOCK)
        lowered = [jax.jit(call).lower(self.x).as_text()]
        np.testing.assert_array_equal(call(self.x)[0], self.wanted)
        monkeypatch.setattr(wp.config, "enable_cpu_blocks", False)
        assert (call(self.x)[0] < self.wanted).all()
        lowered.append(jax.jit(lambda x: call(x)).lower(self.x).as_text())
        targets = [re.findall(r"[0-9a-f]{64}", text) for text in lowered]
        assert targets[0]
        assert targets[0] != targets[1]

    def test_an_error_of_a_block_reaches_the_caller(self, monkeypatch):
        text = ctypes.create_string_buffer(b"no stack is left")
        error = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(text))
        monkeypatch.setattr(cpu_plan.internals().runtime.core, "wp_take_cpu_block_error", error)
        call = jax_kernel(kernels.block_sums, launch_dims=3 * BLOCK, output_dims=3, block_dim=BLOCK)
        with pytest.raises(jax.errors.JaxRuntimeError, match="no stack is left"):
            jax.block_until_ready(call(self.x))


COUNT = 4
MATRICES = wp.array3d(dtype=float)


def squares(matrices: MATRICES, out: MATRICES):
    wp.launch_tiled(kernels.tile_squares, dim=[COUNT], inputs=[matrices, out], block_dim=BLOCK)
