"""jax.grad of Warp kernels with loops of run-time length: each gradient is right, or refused."""

# No `from __future__ import annotations` here: Warp reads the annotations of a kernel as objects.
# mypy: disable-error-code="valid-type"
# ruff: noqa: RUF046, UP018 (int(0) is a variable to Warp, and 0 a constant)

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import DifferentiationError, jax_kernel
from bridge.languages.warp.generated import generated
from bridge.languages.warp.loops import reads_stale
from suites.kernels.warp.blocks import wp
from suites.unit.bridge.warp_kernels import INDICES, VECTOR64, kernel

N = 5
COUNT = jnp.array([1, 2, 3, 4, 5], jnp.int32)
X = np.array([0.5, 1.5, 2.0, 1.1, 0.7])
f64 = wp.float64


@wp.func
def length(x: VECTOR64, n: int) -> wp.float64:
    s = f64(0.0)
    for j in range(n):
        s += x[j] * x[j]
    return s


@wp.func
def product_of(x: VECTOR64, n: int) -> wp.float64:
    p = f64(1.0)
    for j in range(n):
        p *= x[j]
    return p


@wp.func
def place(n: INDICES, key: int) -> int:
    """The first element that is not below key."""
    at = int(0)
    while at < n.shape[0] - 1 and n[at] < key:
        at += 1
    return at


# Right.


@kernel
def sums(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    s = f64(0.0)
    for j in range(n[r]):
        s += x[j] * x[j]
    for j in range(n[r]):
        s = f64(0.5) * s - wp.sin(x[j])
    out[r] = f64(3.0) * s / f64(n[r])


@kernel
def sums_in_sums(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    for i in range(n[r]):
        q = f64(0.0)
        for j in range(i + 1):
            q += x[j] * x[i]
        for j in range(3):
            q += wp.sin(x[i] * x[j])
        wp.atomic_add(out, r, q)


@kernel
def sums_of_helpers(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    s = wp.sin(length(x, n[r]))
    for i in range(n[r]):
        s += x[place(n, i)] * length(x, i + 1)
    out[r] = s


@kernel
def elements(n: INDICES, x: VECTOR64, out: VECTOR64):
    if wp.tid() == 0:
        for j in range(n[4]):
            out[j] = wp.sin(x[j])


# Wrong, as Warp generates them.


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
def sum_that_decides(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    p = f64(0.0)
    s = f64(0.0)
    for j in range(n[r]):
        if s < f64(1.0):
            p += x[j] * x[j]
        s += x[j]
    out[r] = p


@kernel
def left_early(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    s = f64(0.0)
    for j in range(n[r]):
        if x[j] > f64(1.4):
            break
        s += x[j] * x[j]
    out[r] = s


@kernel
def element_again(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    for j in range(n[r]):
        out[r] = wp.sin(out[r]) + x[j]


@kernel
def random_weights(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    state = wp.rand_init(7, r)
    s = f64(0.0)
    for j in range(n[r]):
        s += f64(wp.randf(state)) * x[j]
    out[r] = s


@kernel
def sine_of_a_tile(n: INDICES, x: VECTOR64, out: VECTOR64):
    r = wp.tid()
    total = wp.tile_zeros(shape=1, dtype=wp.float64)
    for j in range(n[r]):
        total += wp.tile_load(x, shape=1, offset=j)
    wp.tile_store(out, wp.tile_map(wp.sin, total), offset=r)


RIGHT = [sums, sums_in_sums, sums_of_helpers, elements]
WRONG = [
    square_of_a_sum, product_in_a_helper, sum_that_decides, left_early, element_again, random_weights, sine_of_a_tile,
]  # fmt: skip

pytestmark = pytest.mark.usefixtures("x64")


def loss_of(kernel, **options):
    call = jax_kernel(kernel, launch_dims=N, output_dims=N, in_out_argnames=["out"], **options)
    return lambda x: (call(COUNT, x, jnp.zeros(N))[0] * jnp.array([1.0, 0.7, 0.3, 1.3, 0.9])).sum()


@pytest.mark.parametrize("kernel", RIGHT, ids=lambda kernel: kernel.key)
def test_the_gradient_of_a_sum_is_right(kernel):
    loss = loss_of(kernel)
    steps = 1e-5 * np.eye(N)
    slopes = [(loss(X + step) - loss(X - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(jax.grad(loss)(X), slopes, rtol=1e-8)  # the error is in the square of a step
    assert not reads_stale(generated(kernel, "cuda", None).source)


@pytest.mark.parametrize("kernel", WRONG, ids=lambda kernel: kernel.key)
def test_a_gradient_that_may_be_wrong_is_refused(kernel):
    with pytest.raises(DifferentiationError, match=rf"{kernel.key} has a loop .* enable_backward=True"):
        jax.grad(loss_of(kernel))(X)
    assert reads_stale(generated(kernel, "cuda", None).source)


def test_the_user_may_have_it_all_the_same_and_values_need_no_word():
    loss = loss_of(square_of_a_sum, enable_backward=True)
    np.testing.assert_allclose(loss(X), (np.cumsum(X) ** 2 * [1.0, 0.7, 0.3, 1.3, 0.9]).sum())
    assert jax.grad(loss)(X).tolist() == [0] * N  # wrong
    np.testing.assert_allclose(loss_of(square_of_a_sum)(X), loss(X))
