"""brainevent's XLACustomKernel over the bridge's: its methods, its rules, and its names of platforms."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax.interpreters import ad

from bridge import BackendError, SignatureError, numba_kernel
from bridge.adapters.brainevent import XLACustomKernel, operators

Spec = jax.ShapeDtypeStruct
W, X = jnp.array([2.0, 3.0, 5.0]), jnp.array([1.0, 4.0, 6.0])


@numba.njit
def _times(w, x, out):
    for i in range(x.size):
        out[i] = w[i] * x[i]


def _call(op, w, x, *, scale=1, backend=None):
    return op(w, x, outs=Spec(x.shape, x.dtype), scale=scale, backend=backend)


@pytest.fixture
def op():
    """``w * x * scale``, linear in both arguments."""
    op = XLACustomKernel("times", doc="Multiplies.")
    op.def_numba_kernel(lambda outs, scale: lambda w, x: numba_kernel(_times, outs[0])(w * scale, x))
    for platform in ("cpu", "gpu"):
        op.def_kernel("plain", platform, lambda outs, scale: lambda w, x: (w * x * scale,))
    op.def_call(lambda w, x, **keywords: _call(op, w, x, **keywords))
    return op


def _declare_derivatives(op, seen):
    def jvp(tangent, w, x, **parameters):
        seen.append(parameters["backend"])
        return op(tangent, x, **parameters)

    def transpose(cotangents, w, x, *, outs, **parameters):
        assert ad.is_undefined_primal(w)
        return op(cotangents[0], x, outs=outs, **parameters)[0], None

    op.def_jvp_rule2(jvp, None)
    op.def_transpose_rule(transpose)


@pytest.mark.parametrize("backend", [None, "numba", "plain"])
def test_a_rule_for_each_argument_gets_the_parameters_of_the_call(op, backend):
    seen = []
    _declare_derivatives(op, seen)

    def total(w, x):
        return _call(op, w, x, scale=2, backend=backend).sum()

    for transformed in (jax.grad(total, (0, 1)), jax.jit(jax.grad(total, (0, 1)))):
        by_w, by_x = transformed(W, X)
        np.testing.assert_array_equal(by_w, 2 * X)
        np.testing.assert_array_equal(by_x, 0 * W)  # its rule is None
    assert set(seen) == {backend}
    _, tangent = jax.jvp(total, (W, X), (X, X))
    assert tangent == (2 * X * X).sum()


def test_the_rule_of_an_argument_that_does_not_vary_is_not_called(op):
    def refused(*_, **__):
        raise AssertionError("x does not vary")

    op.def_jvp_rule2(lambda tangent, w, x, **parameters: op(tangent, x, **parameters), refused)
    assert jax.jvp(lambda w: _call(op, w, X).sum(), (W,), (W,))[1] == (W * X).sum()


def test_rules_and_arguments_are_as_many(op):
    op.def_jvp_rule2(None)
    with pytest.raises(SignatureError, match="1 rules for 2 arguments"):
        jax.jvp(lambda w: _call(op, w, X), (W,), (W,))


def test_a_batch_runs_and_has_derivatives_without_a_rule_and_with_one(op):
    _declare_derivatives(op, [])
    batch = jnp.stack([X, 2 * X], 1)

    def total(w, axis_first):
        xs = batch.T if axis_first else batch
        return jax.vmap(lambda x: _call(op, w, x), in_axes=0 if axis_first else 1)(xs).sum()

    np.testing.assert_array_equal(jax.grad(total)(W, False), 3 * X)
    seen = []

    def rule(args, axes, **parameters):
        seen.append((axes, sorted(parameters)))
        w, x = args
        return [w * x], [0]

    op.def_batching_rule(rule)
    assert total(W, True) == (3 * W * X).sum()
    assert seen == [((None, 0), ["backend", "outs", "scale"])]


def test_platforms_have_brainevents_names(op):
    assert op.defaults == {"cpu": "numba", "gpu": "plain"}
    assert (op.get_default("gpu"), op.get_default("tpu")) == ("plain", None)
    assert op.available_backends("gpu") == ["plain"]
    op.set_default("cpu", "plain")
    assert op.get_default("cpu") == "plain"
    op.def_pallas_kernel("gpu", lambda **parameters: None, asdefault=True)
    assert op.get_default("gpu") == "pallas"
    with pytest.raises(BackendError, match="'other' is not registered"):
        _call(op, W, X, backend="other")


def test_operators_are_found_by_their_tags(op):
    op.def_tags("dense", "float")
    assert operators("float", "dense")["times"] is op
    assert "times" not in operators("sparse")
    assert op.__doc__ == "Multiplies."


def test_the_function_that_users_call_is_called(op):
    np.testing.assert_array_equal(op.call(W, X, scale=3), 3 * W * X)
    with pytest.raises(ValueError, match="bare has no function to call"):
        XLACustomKernel("bare").call()
