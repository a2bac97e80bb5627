"""Kernels for tensor cores whose rows have choices: each choice is right on the CPU, or lowers for a GPU."""

import jax
import jax.numpy as jnp
import numpy as np

from suites.ops import operators
from suites.ops.attention.warp_tiles import attention_in_tiles
from suites.ops.matmul import warp_tiles
from suites.unit.processes import output


def arrays(dtype, *shapes):
    random = np.random.default_rng(3)
    return [jnp.asarray(random.normal(size=shape), dtype) for shape in shapes]


def test_warp_multiplies_in_large_tiles_with_a_rest_at_each_side():
    A, B = arrays("bfloat16", (130, 257), (257, 300))
    (wanted,) = operators()["matmul"].reference(A, B)
    (got,) = warp_tiles.matmul_in_tiles((A, B), [wanted], **warp_tiles.LARGE)(A, B)
    np.testing.assert_allclose(got.astype(np.float32), wanted.astype(np.float32), rtol=0.01, atol=0.01)


def test_groups_of_heads_share_the_keys_in_warp_tiles():
    q, k, v = arrays("float16", (70, 4, 16), (70, 2, 16), (70, 2, 16))
    wanted = jax.nn.dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    (got,) = attention_in_tiles((q, k, v), [q])(q, k, v)
    np.testing.assert_allclose(got, wanted, atol=4e-3)


def test_kernels_that_jax_ships_lower_on_parts_of_blocks_in_batches_and_in_large_tiles():
    # In a process of its own: an import of JAX's kernels that fails, as without absl, cannot be repeated.
    assert output("-m", "suites.unit.suites.lower_shipped").splitlines()[-1] == "7 programs"
