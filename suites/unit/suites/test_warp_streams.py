"""Element-wise Warp kernels have code of their own, and a block for each tile."""

import jax.numpy as jnp
import numpy as np

import bridge
from suites.backends.warp import per_stream_tile, stream, wp


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
