"""Checks the rules that an author declares for an operator, under JAX's transformations and on meshes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from bridge import SignatureError, XLACustomKernel, numba_kernel
from suites.unit.bridge import kernels
from suites.unit.bridge.test_meshes import with_transpose

Spec = jax.ShapeDtypeStruct
A = jax.random.normal(jax.random.key(0), (16, 5))
X = jnp.arange(5.0)


@pytest.fixture
def matvec():
    """A @ x, linear in both, on Numba and in jnp."""
    op = with_transpose()
    op.def_jnp_kernel(lambda outs: lambda A, x: A @ x)
    return op


@pytest.fixture
def square():
    """x**2 for floats, and n + 1 for integers beside it."""
    op = XLACustomKernel("square", outs=lambda x, n: [Spec(x.shape, x.dtype), Spec(n.shape, n.dtype)])
    op.def_jnp_kernel(lambda outs: lambda x, n: (x**2, n + 1))
    return op


N = jnp.arange(3)
V = jnp.arange(3.0)


def close(got, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5), got, expected)


def test_a_compiled_operator_is_its_kernel(matvec):
    """So it costs the same in a loop, however often it is called."""

    def program(function):
        text = jax.jit(lambda A, x: jax.lax.fori_loop(0, 9, lambda i, x: A.T @ function(A, x), x)).lower(A, X).compile()
        instructions = re.sub(r", metadata=\{[^}]*\}|%?[\w.-]*(jit|fori|custom|call)[\w.-]*", "", text.as_text())
        return sorted(re.findall(r"= (\S+ [\w-]+)\(", instructions)), re.findall(r"key = (-?\d+)", text.as_text())

    assert program(matvec) == program(numba_kernel(kernels.product, Spec((16,), A.dtype)))


def test_transposes_give_forward_mode_and_second_derivatives(matvec):
    check_grads(lambda A, x: jnp.tanh(matvec(A, x)), (A, X), order=2, modes=("fwd", "rev"), atol=0.1, rtol=0.1)


def test_a_vjp_rule_with_integer_operands_and_results(square):
    seen = []

    def backward(x, cotangents, outs):
        seen.append(cotangents[1])
        return 2 * x * cotangents[0], None

    square.def_vjp(lambda x, n, outs: (square(x, n), x), backward)
    close(jax.grad(lambda x: square(x, N)[0].sum())(V), 2 * V)
    close(jax.jit(jax.vmap(jax.grad(lambda x: square(x, N)[0].sum())))(jnp.ones((2, 3))), 2 * jnp.ones((2, 3)))
    assert seen
    assert set(seen) == {None}


def test_a_jvp_rule_gives_both_modes(square):
    square.def_jvp(lambda primals, tangents, outs: (square(*primals), [2 * primals[0] * tangents[0], None]))
    close(jax.grad(lambda x: square(x, N)[0].sum())(V), 2 * V)
    results, tangents = jax.jvp(lambda x: square(x, N), (V,), (jnp.ones(3),))
    close(results[0], V**2)
    close(tangents[0], 2 * V)
    assert tangents[1].dtype == jax.dtypes.float0


def test_a_declared_rule_replaces_the_native_batch(matvec):
    seen = []

    def rule(extent, is_batched, A, x, outs):
        seen.append((extent, is_batched, A.shape, x.shape, outs[0].shape))
        return jnp.einsum("...ij,...j->...i", A, x) * jnp.ones((extent, 1))

    matvec.def_batching(rule)
    many = jnp.stack([X, X + 1], axis=1)
    close(jax.vmap(matvec, (None, 1))(A, many), jnp.stack([A @ X, A @ (X + 1)]))
    assert seen == [(2, (False, True), (16, 5), (2, 5), (16,))]


def test_an_error_in_a_rule_says_what_the_rule_got(matvec):
    def rule(args, axes, *_, outs):
        _A, _x, _more = axes

    matvec.def_batching(rule)
    with pytest.raises(ValueError, match="not enough values to unpack") as caught:
        jax.vmap(lambda A: matvec(A, X))(A[None])
    assert "the batching rule of the operator matvec, which got 1, (True, False), float32" in caught.value.__notes__[0]


REFUSED = {
    "a transpose of another shape": (
        lambda op: op.def_transpose(0, lambda cotangents, n, outs: cotangents[0][:2]),
        r"operand 0 returned float32\[2\], expected float32\[3\]",
    ),
    "too few gradients": (
        lambda op: op.def_vjp(lambda x, n, outs: (op(x, n), x), lambda x, cotangents, outs: x),
        "returned 1 gradients, expected one for each of the 2 arguments",
    ),
    "too few tangents": (
        lambda op: op.def_jvp(lambda primals, tangents, outs: (op(*primals), [tangents[0]])),
        "returned 1 tangents, expected one for each of the 2 results",
    ),
    "no batch": (
        lambda op: op.def_batching(lambda extent, is_batched, x, n, outs: [x[0], n[0]]),
        r"the batching rule returned float32\[3\], .*but outs declares",
    ),
}  # fmt: skip
"""Rules that return something else than they should, by what, and the text of the error."""


@pytest.mark.parametrize("what", REFUSED)
def test_a_rule_that_returns_something_else_is_refused(square, what):
    declare, message = REFUSED[what]
    declare(square)
    gradient = jax.grad(lambda x, n: square(x, n)[0].sum())
    function = jax.vmap(square) if what == "no batch" else jax.vmap(gradient)
    with pytest.raises(SignatureError, match=message):
        function(jnp.ones((2, 3)), jnp.ones((2, 3), int))
