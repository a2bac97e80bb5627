"""Kernels for tensor cores whose rows have choices: each choice is right on the CPU, or lowers for a GPU."""

import sys
from types import SimpleNamespace
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from suites.backends import BACKENDS
from suites.ops import operators
from suites.ops.attention.warp_tiles import attention_in_tiles
from suites.ops.matmul import mosaic, warp_tiles
from suites.vendors.shipped import shipped


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


@pytest.fixture
def hopper(monkeypatch):
    """What JAX's kernels ask for where there is no GPU. They import absl for their main functions only."""
    for name in ("absl", "absl.app", "jax._src.test_util"):
        monkeypatch.setitem(sys.modules, name, mock.MagicMock())
    monkeypatch.setattr(shipped("hopper_matmul_mgpu"), "get_num_sms", lambda: 132)
    version = SimpleNamespace(cuda_runtime_get_version=lambda: 13000)
    monkeypatch.setattr(shipped("attention_mgpu"), "cuda_versions", version)


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("name", "dtype", "shapes"),
    [
        ("matmul", "bfloat16", ((33, 67), (67, 65))),
        ("matmul", "float16", ((3, 0), (0, 5))),
        ("attention", "float16", ((37, 4, 5), (37, 2, 5), (37, 2, 5))),
    ],
)
def test_a_kernel_that_jax_ships_lowers_on_parts_of_blocks_and_in_batches(name, dtype, shapes):
    call = operators()[name].build(BACKENDS["mosaic_gpu"], arrays(dtype, *shapes))
    for function, inputs in ((call, shapes), (jax.vmap(call), [(2, *shape) for shape in shapes])):
        text = jax.jit(function).trace(*arrays(dtype, *inputs)).lower(lowering_platforms=("cuda",)).as_text()
        assert "mosaic_gpu" in text


@pytest.mark.usefixtures("hopper")
def test_large_tiles_of_the_kernel_that_jax_ships_lower():
    A = jax.ShapeDtypeStruct((2048, 2048), jnp.bfloat16)
    call = mosaic.matmul_mosaic((A, A), [A])
    assert "mosaic_gpu" in jax.jit(call).trace(A, A).lower(lowering_platforms=("cuda",)).as_text()
