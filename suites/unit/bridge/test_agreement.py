"""Checks that the rule of agreement accepts rounding and refuses mistakes, alike in tune and debug_mode."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import BackendError, XLACustomKernel, debug_mode
from bridge.debug.agreement import default_rtol, disagreement
from bridge.ffi.native.object_code import VARIABLE


class TestRounding:
    """The tolerance is relative to each element, and follows the dtype."""

    @pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32, np.float64, np.complex64])
    def test_rounding_is_right_and_more_is_wrong(self, dtype):
        truth = np.linspace(1, 2, 100).astype(dtype)
        unit = float(jnp.finfo(dtype).eps) / 2
        assert disagreement([(truth * (1 + 4 * unit)).astype(dtype)], [truth], [1]) is None
        assert disagreement([(truth * (1 + 60 * unit)).astype(dtype)], [truth], [1]) is not None

    def test_a_matrix_product_is_right_in_any_order(self):
        a, b = np.random.default_rng(0).normal(size=(2, 300, 300)).astype(np.float32)
        reordered = sum(np.multiply.outer(a[:, k], b[k]) for k in range(299, -1, -1))
        assert disagreement([reordered], [a @ b], [a.size, b.size]) is None

    def test_the_small_elements_beside_large_ones_count(self):
        truth = np.logspace(-20, 20, 100).astype(np.float32)
        got = np.where(truth < 1, 0, truth).astype(np.float32)
        assert "(50 of 100 elements)" in disagreement([got], [truth], [1])

    def test_zeros_say_nothing_about_the_size_of_results(self):
        truth = np.zeros(100, np.float32)
        truth[:5] = 1.0
        got = truth.copy()
        got[50:] += 1e-7
        assert disagreement([got], [truth], [1]) is None
        got[50] += 1e-3
        assert "at [50]" in disagreement([got], [truth], [1])
        assert disagreement([got], [truth], [1], rtol=0.01) is None


class TestOtherValues:
    @pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
    def test_nan_and_infinities_are_at_the_same_places(self, special):
        truth = np.array([1, special, 3], np.float32)
        assert disagreement([truth], [truth], [1]) is None
        assert "NaN or infinity" in disagreement([np.array([1, 2, 3], np.float32)], [truth], [1])
        assert "NaN or infinity" in disagreement([np.array([special, special, 3], np.float32)], [truth], [1])

    def test_integers_are_equal(self):
        truth = np.arange(5)
        assert disagreement([truth], [truth], [1]) is None
        assert disagreement([truth + (truth == 3)], [truth], [1], rtol=1.0) == (
            "result 0: differs at [3]: 4, expected 3 (1 of 5 elements)"
        )

    def test_shapes_dtypes_and_empty_results(self):
        truth = np.zeros(0, np.float32)
        assert disagreement([truth], [truth], [1]) is None
        assert disagreement([np.zeros(1, np.float32)], [truth], [1]) == "result 0: float32[1], expected float32[0]"


@pytest.mark.parametrize(("dtype", "change", "is_right"), [("bfloat16", 0.5, True), ("float32", 30, False)])
def test_tune_and_debug_mode_accept_the_same_results(monkeypatch, tmp_path, dtype, change, is_right):
    """The change counts in tolerances. It is far from 1, for the device and the host may round differently."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr("bridge.operator.tuning.ROUNDS", 1)
    expected = jnp.array([1.0, 3.0, 0.0, 1.0], dtype)
    got = expected * jnp.asarray(1 + change * default_rtol(expected.dtype, [4]), dtype)
    op = XLACustomKernel("constant", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    op.def_kernel("mine", "cpu", lambda outs: lambda x: x)
    op.def_jnp_kernel(lambda outs: lambda x: expected)
    for rtol, accepted in ((None, is_right), (1.0, True)):
        refused = contextlib.nullcontext() if accepted else pytest.raises(BackendError, match=r"mine: wrong")
        with refused:
            op.tune(got, backends=["mine"], rtol=rtol)
        refused = (
            contextlib.nullcontext()
            if accepted
            else pytest.raises(jax.errors.JaxRuntimeError, match="from those of jnp")
        )
        with refused, debug_mode(outputs=False, inputs=False, nan=False, rtol=rtol):
            jax.block_until_ready(op(got))
