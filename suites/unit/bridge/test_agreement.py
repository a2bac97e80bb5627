"""Checks that the rule of agreement accepts rounding and refuses mistakes, alike in tune and debug_mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import BackendError, XLACustomKernel, debug_mode
from bridge.agreement import default_rtol, disagreement
from bridge.cached_files import VARIABLE
from bridge.operator import tuning

FAILED = (jax.errors.JaxRuntimeError, ValueError)


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


DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "int32", "bool")
CHANGES = {"right": 0.5, "wrong": 30.0, "special": np.nan}
"""A relative change in tolerances: far from 1, for the device and the host may round differently."""


def case_of(dtype, change, size):
    """A result and its reference, which differ in every other element."""
    expected = np.resize([1.0, 3.0, 0.0, 1.0], size).astype(dtype)
    where, dtype = np.arange(size) % 2 == 1, jnp.dtype(dtype)
    if dtype.kind in "ib":
        changed = expected + 1 if dtype.kind == "i" else ~expected
        return np.where(where & (change != "right"), changed, expected).astype(dtype), expected
    factor = 1 + CHANGES[change] * default_rtol(dtype, [size])
    return np.where(where, expected * dtype.type(factor), expected).astype(dtype), expected


def operator(got, expected):
    """An operator whose kernel returns its argument, and whose reference returns the expected array."""
    op = XLACustomKernel("constant", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    op.def_kernel("mine", "cpu", lambda outs: lambda x: x)
    op.def_jnp_kernel(lambda outs: lambda x: jnp.asarray(expected))
    return op


def refusal(error, expected):
    """False, unless the error is another one than expected."""
    if expected not in str(error):
        raise error
    return False


def accepted_by_tune(got, expected, rtol):
    try:
        operator(got, expected).tune(jnp.asarray(got), backends=["mine"], rtol=rtol)
    except BackendError as error:
        return refusal(error, "no candidate gives a right result (mine: wrong")
    return True


def accepted_by_debug_mode(got, expected, rtol):
    try:
        with debug_mode(outputs=False, inputs=False, nan=False, rtol=rtol):
            jax.block_until_ready(operator(got, expected)(jnp.asarray(got)))
    except FAILED as error:
        return refusal(error, "differ from those of jnp")
    return True


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_tune_and_debug_mode_accept_the_same_results(monkeypatch, tmp_path, dtype, change):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(tuning, "ROUNDS", 1)
    monkeypatch.setattr(tuning, "SAMPLE_S", 0.0)
    with jax.enable_x64(True):
        case = case_of(dtype, change, 4)
        assert accepted_by_tune(*case, None) == accepted_by_debug_mode(*case, None) == (change == "right")
        assert accepted_by_tune(*case, 1.0) == accepted_by_debug_mode(*case, 1.0)
