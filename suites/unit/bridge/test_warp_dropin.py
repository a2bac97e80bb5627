"""jax_kernel in the place of Warp's own: the same calls give equal results."""

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
    "value": (kernels.scale, {}, (X, 3.0)),
    "inferred launch": (kernels.extremes, {"num_outputs": 2, "output_dims": (6,)}, (TABLE,)),
    "output dims with those of elements": (REVERSE["vec3"], {"output_dims": (4, 3)}, (X.reshape(4, 3),)),
    "in/out": (kernels.increment, {"in_out_argnames": ["x"]}, (X,)),
    "in/out and output": (
        kernels.exchange,
        {"num_outputs": 3, "in_out_argnames": ["total", "old"], "output_dims": 12},
        (X, 2 * X, ONES),
    ),
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


def test_gradients_are_equal():
    def loss(make):
        call = make(kernels.polar, num_outputs=2, enable_backward=True)
        return lambda radius, angle: sum((result * radius).sum() for result in call(radius, angle))

    with jax.enable_x64(True):
        args = np.linspace(1.0, 2.0, 12), np.linspace(-3.0, 3.0, 12)
        expected, got = (jax.grad(loss(make), (0, 1))(*args) for make in (WARPS_OWN, bridge.jax_kernel))
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shape", [(6, 4), (3, 4)], ids=["first array", "fewer threads"])
def test_outputs_with_enable_backward_have_the_shape_of_the_first_array(shape):
    @kernels.kernel
    def doubled_rows(x: kernels.MATRIX, out: kernels.MATRIX):
        i = wp.tid()
        for j in range(x.shape[1]):
            out[i, j] = 2.0 * x[i, j]

    x = TABLE[: shape[0]]
    for make in (WARPS_OWN, bridge.jax_kernel):
        call = make(doubled_rows, launch_dims=shape[0], enable_backward=True)
        np.testing.assert_array_equal(call(x)[0], 2 * x)
        np.testing.assert_array_equal(jax.grad(lambda x, call=call: call(x)[0].sum())(x), jnp.full(shape, 2))


@pytest.mark.parametrize("make", [WARPS_OWN, bridge.jax_kernel])
def test_what_both_refuse(make):
    for block_dim in (True, 1.5, "8"):
        with pytest.raises(TypeError, match="block_dim must be an integer or None"):
            make(kernels.scale, block_dim=block_dim)
    with pytest.raises(ValueError, match="block_dim must be positive"):
        make(kernels.scale, block_dim=0)
    differentiable = make(kernels.polar, num_outputs=2, launch_dims=3, enable_backward=True)
    for name, value in {"launch_dims": 3, "vmap_method": "sequential"}.items():
        with pytest.raises(TypeError, match=f"{name} cannot be overridden per-call"):
            differentiable(X, X, **{name: value})


def test_parameters_have_the_names_and_the_order_of_warps_own():
    ours = list(inspect.signature(bridge.jax_kernel).parameters)
    assert ours[: len(PARAMETERS)] == list(inspect.signature(WARPS_OWN).parameters)
