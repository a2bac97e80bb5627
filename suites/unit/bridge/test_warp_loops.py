"""jax.grad of Warp kernels with loops of run-time length: their adjoint is used if the user asks for it."""

# No `from __future__ import annotations` here: Warp reads the annotations of a kernel as objects.
# mypy: disable-error-code="valid-type"
# ruff: noqa: RUF046, UP018 (int(0) is a variable to Warp, and 0 a constant)

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import DifferentiationError, jax_kernel
from suites.kernels.warp.blocks import wp
from suites.unit.bridge.warp_kernels import INDICES, VECTOR64, kernel

N = 5
COUNT = jnp.array([1, 2, 3, 4, 5], jnp.int32)
X = np.array([0.5, 1.5, 2.0, 1.1, 0.7])
f64 = wp.float64


@wp.func
def product_of(x: VECTOR64, n: int) -> wp.float64:
    p = f64(1.0)
    for j in range(n):
        p *= x[j]
    return p


@kernel
def sums(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    s = f64(0.0)
    for j in range(n[r]):
        s += x[j] * x[j]
    out[r] = f64(3.0) * s / f64(n[r])


@kernel
def square_of_a_sum(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    s = f64(0.0)
    for j in range(n[r]):
        s += x[j]
    out[r] = s * s


@kernel
def product_in_a_helper(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    out[r] = product_of(x, n[r])


@kernel
def product_while(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    p = f64(1.0)
    j = int(0)
    while j < n[r]:
        p *= x[j]
        j += 1
    out[r] = p


@kernel
def unrolled(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    p = f64(n[r])
    for j in range(5):
        p *= wp.sin(x[j])
    out[r] = p * p


pytestmark = pytest.mark.usefixtures("x64")


def loss_of(kernel, **options):
    call = jax_kernel(kernel, launch_dims=N, output_dims=N, in_out_argnames=["out"], **options)
    return lambda x: (call(COUNT, x, jnp.zeros(N))[0] * jnp.array([1.0, 0.7, 0.3, 1.3, 0.9])).sum()


@pytest.mark.parametrize(("kernel", "options"), [(sums, {"enable_backward": True}), (unrolled, {})])
def test_the_gradient_of_a_sum_is_right_and_so_is_that_of_a_loop_of_constant_length(kernel, options):
    loss = loss_of(kernel, **options)
    steps = 1e-5 * np.eye(N)
    slopes = [(loss(X + step) - loss(X - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(jax.grad(loss)(X), slopes, rtol=1e-8)  # the error is in the square of a step


@pytest.mark.parametrize(
    "kernel", [sums, square_of_a_sum, product_in_a_helper, product_while], ids=lambda kernel: kernel.key
)
def test_a_gradient_that_may_be_wrong_is_refused(kernel):
    with pytest.raises(DifferentiationError, match=rf"{kernel.key} has a loop .* enable_backward=True"):
        jax.grad(loss_of(kernel))(X)


def test_the_user_may_have_it_all_the_same_and_values_need_no_word():
    loss = loss_of(square_of_a_sum, enable_backward=True)
    np.testing.assert_allclose(loss(X), (np.cumsum(X) ** 2 * [1.0, 0.7, 0.3, 1.3, 0.9]).sum())
    assert jax.grad(loss)(X).tolist() == [0] * N  # wrong
    np.testing.assert_allclose(loss_of(square_of_a_sum)(X), loss(X))
