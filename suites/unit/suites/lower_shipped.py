"""Lowers the kernels that JAX ships for Hopper GPUs, where there is no GPU, and prints how many programs it lowered."""

import sys
from types import SimpleNamespace
from unittest import mock

import jax
import jax.numpy as jnp

from suites.backends import BACKENDS
from suites.ops import operators
from suites.ops.matmul import mosaic
from suites.unit.suites.test_tile_kernels import arrays
from suites.vendors.shipped import shipped

CALLS = (
    ("matmul", "bfloat16", ((33, 67), (67, 65))),
    ("matmul", "float16", ((3, 0), (0, 5))),
    ("attention", "float16", ((37, 4, 5), (37, 2, 5), (37, 2, 5))),
)


def lower(function, *inputs):
    text = jax.jit(function).trace(*inputs).lower(lowering_platforms=("cuda",)).as_text()
    assert "mosaic_gpu" in text
    return text


if __name__ == "__main__":
    for name in ("absl", "absl.app", "jax._src.test_util"):  # JAX's kernels import them for their main functions only
        sys.modules[name] = mock.MagicMock()
    shipped("hopper_matmul_mgpu").get_num_sms = lambda: 132
    shipped("attention_mgpu").cuda_versions = SimpleNamespace(cuda_runtime_get_version=lambda: 13000)
    programs = []
    for name, dtype, shapes in CALLS:
        call = operators()[name].build(BACKENDS["mosaic_gpu"], arrays(dtype, *shapes))
        programs.append(lower(call, *arrays(dtype, *shapes)))
        programs.append(lower(jax.vmap(call), *arrays(dtype, *((2, *shape) for shape in shapes))))
    A = jax.ShapeDtypeStruct((2048, 2048), jnp.bfloat16)
    programs.append(lower(mosaic.matmul_mosaic((A, A), [A]), A, A))
    print(len(programs), "programs")
