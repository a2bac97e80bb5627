"""jax_kernel in the place of Warp's own: the same calls give equal results."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from suites.backends.warp_blocks import wp
from suites.unit.bridge import warp_kernels as kernels

WARPS_OWN = getattr(wp, "jax_kernel", None)
PARAMETERS = set(inspect.signature(WARPS_OWN).parameters) if WARPS_OWN else set()
# Warp 1.16 added the CPU together with the choice of a block size.
pytestmark = pytest.mark.skipif(
    "block_dim" not in PARAMETERS, reason=f"jax_kernel of Warp {wp.__version__} does not run on the CPU"
)

X = jnp.linspace(0.0, 1.0, 12)
TABLE = jnp.asarray(np.random.default_rng(2).integers(-99, 99, (6, 4)), jnp.float32)
ONES = jnp.ones(1)
ALL_DEVICES = wp.JaxModulePreloadMode.ALL_DEVICES if WARPS_OWN else None
REVERSE = kernels.REVERSE

CALLS = {
    "array": (REVERSE["float32"], {}, (X,)),
    "vectors": (REVERSE["vec3"], {}, (X.reshape(4, 3),)),
    "half precision": (REVERSE["float16"], {}, (X.astype(jnp.float16),)),
    "two dimensions": (kernels.index2, {}, (jnp.arange(6, dtype=jnp.int32).reshape(2, 3),)),
    "value": (kernels.scale, {}, (X, 3.0)),
    "whole number as float": (kernels.scale, {}, (X, 3)),
    "truth value as float": (kernels.scale, {}, (X, True)),
    "int dims": (kernels.count1, {"launch_dims": 5}, ()),
    "list dims": (kernels.count4, {"launch_dims": [2, 1, 3, 2]}, ()),
    "array dims": (kernels.count4, {"launch_dims": np.array([2, 1, 3, 2])}, ()),
    "launch and output dims": (kernels.extremes, {"num_outputs": 2, "launch_dims": 6, "output_dims": 6}, (TABLE,)),
    "inferred launch": (kernels.extremes, {"num_outputs": 2, "output_dims": (6,)}, (TABLE,)),
    "output dims by name": (
        kernels.extremes,
        {"num_outputs": 2, "launch_dims": (6,), "output_dims": {"low": 6, "high": (6,)}},
        (TABLE,),
    ),
    "output dims with those of elements": (REVERSE["vec3"], {"output_dims": (4, 3)}, (X.reshape(4, 3),)),
    "in/out": (kernels.increment, {"in_out_argnames": ["x"]}, (X,)),
    "in/out and output": (
        kernels.exchange,
        {"num_outputs": 3, "in_out_argnames": ["total", "old"], "output_dims": 12},
        (X, 2 * X, ONES),
    ),
    "side effects": (kernels.scale, {"has_side_effect": True}, (X, 2.0)),
    "empty": (REVERSE["float32"], {}, (X[:0],)),
    "preloaded": (kernels.scale, {"module_preload_mode": ALL_DEVICES}, (X, 2.0)),
    "tiles": (
        kernels.tile_sums,
        {"launch_dims": (3, 1), "output_dims": 3, "block_dim": 1},
        (jnp.arange(3.0 * kernels.TILE).reshape(3, -1),),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_equal(name):
    kernel, options, args = CALLS[name]
    expected = WARPS_OWN(kernel, **options)(*args)
    got = bridge.jax_kernel(kernel, **options)(*args)
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_array_equal(ours, theirs)


def test_dims_of_a_single_call_are_equal():
    for make in (WARPS_OWN, bridge.jax_kernel):
        call = make(kernels.extremes, num_outputs=2, launch_dims=6, output_dims=6)
        for rows in (3, 6):
            low, high = call(TABLE[:rows], launch_dims=rows, output_dims={"low": rows, "high": rows})
            np.testing.assert_array_equal(high - low, jnp.ptp(TABLE[:rows], axis=1))


@pytest.mark.parametrize("method", ["broadcast_all", "sequential", "expand_dims"])
def test_batches_of_an_elementwise_kernel_are_equal(method):
    xs = jnp.arange(24.0).reshape(4, 6)
    calls = [make(kernels.scale, vmap_method=method) for make in (WARPS_OWN, bridge.jax_kernel)]
    expected, got = (jax.vmap(functools.partial(lambda call, x: call(x, 3.0)[0], call))(xs) for call in calls)
    np.testing.assert_array_equal(got, expected)


def test_gradients_are_equal():
    def loss(make):
        call = make(kernels.polar, num_outputs=2, enable_backward=True)
        return lambda radius, angle: sum((result * radius).sum() for result in call(radius, angle))

    with jax.enable_x64(True):
        args = np.linspace(1.0, 2.0, 12), np.linspace(-3.0, 3.0, 12)
        expected, got = (jax.grad(loss(make), (0, 1))(*args) for make in (WARPS_OWN, bridge.jax_kernel))
        np.testing.assert_array_equal(got, expected)


def test_parameters_have_the_names_and_the_order_of_warps_own():
    ours = list(inspect.signature(bridge.jax_kernel).parameters)
    assert ours[: len(PARAMETERS)] == list(inspect.signature(WARPS_OWN).parameters)
