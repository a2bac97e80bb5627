"""Calls kernels and functions of Warp through jarp, for one dtype and for the dtype of the arguments."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import warp as wp
from jarp.warp import jax_callable, jax_kernel

jax.config.update("jax_enable_x64", True)


@wp.kernel
def triple(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32)):
    """Multiplies by three."""
    i = wp.tid()
    y[i] = 3.0 * x[i]


@wp.kernel
def square(x: wp.array(dtype=Any), y: wp.array(dtype=Any)):
    """Squares numbers of any dtype."""
    i = wp.tid()
    y[i] = x[i] * x[i]


def overload(dtype: Any, *_: Any) -> dict[str, Any]:
    """The types of the arguments of ``square`` for one dtype."""
    return {"x": wp.array(dtype=dtype), "y": wp.array(dtype=dtype)}


def squares(dtype: Any) -> Any:
    """A function of Warp that launches ``square`` for one dtype."""

    def run(x: wp.array(dtype=dtype), y: wp.array(dtype=dtype)):
        wp.launch(wp.overload(square, overload(dtype)), dim=x.shape, inputs=[x], outputs=[y])

    return run


def tripled(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32)):
    """A function of Warp that launches ``triple``."""
    wp.launch(triple, dim=x.shape, inputs=[x], outputs=[y])


ONE, BOTH = (np.float32,), (np.float32, np.float64)
CALLS: dict[str, tuple[Any, Any, tuple[type, ...]]] = {
    "kernel": (partial(jax_kernel, triple), lambda x: 3 * x, ONE),
    "overloads": (partial(jax_kernel, square, arg_types_factory=overload), lambda x: x * x, BOTH),
    "function": (partial(jax_callable, tripled), lambda x: 3 * x, ONE),
    "functions": (partial(jax_callable, squares, generic=True), lambda x: x * x, BOTH),
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled(name: str) -> None:
    """A call inside jit, in each dtype."""
    make, expected, dtypes = CALLS[name]
    call = make()
    for dtype in dtypes:
        x = jnp.arange(33, dtype=dtype)
        result = jax.jit(lambda x: call(x)[0])(x)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected(np.arange(33, dtype=dtype)))


@pytest.mark.parametrize("name", ["kernel", "overloads"])
def test_gradient(name: str) -> None:
    """The derivative by Warp's adjoint, in each dtype."""
    make, expected, dtypes = CALLS[name]
    call = make(enable_backward=True)
    for dtype in dtypes:
        x = jnp.arange(33, dtype=dtype)
        gradient = jax.grad(lambda x: call(x)[0].sum())(x)
        np.testing.assert_allclose(gradient, jax.grad(lambda x: expected(x).sum())(x))


@pytest.mark.parametrize("name", ["kernel", "function"])
def test_argument_of_a_compiled_function(name: str) -> None:
    """The wrapper as a static argument of a function that jit compiles, twice: its equal is compiled once."""
    make, expected, dtypes = CALLS[name]
    run = jax.jit(lambda call, x: call(x)[0], static_argnums=0)
    x, call = jnp.arange(33, dtype=dtypes[0]), make()
    for _ in range(2):
        np.testing.assert_array_equal(run(call, x), expected(np.asarray(x)))
