"""Checks that the rule of agreement accepts rounding and refuses mistakes, alike in tune and debug_mode."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from bridge import BackendError, XLACustomKernel, debug_mode
from bridge.agreement import compare, default_rtol, disagreement
from bridge.operator.tuning import clock, race
from bridge.operator.tuning.winner_files import VARIABLE

FAILED = (jax.errors.JaxRuntimeError, ValueError)


class TestRounding:
    """The tolerance is relative to each element, and follows the dtype."""

    @pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32, np.float64, np.complex64])
    def test_rounding_is_right_and_more_is_wrong(self, dtype):
        truth = np.linspace(1, 2, 100).astype(dtype)
        unit = float(jnp.finfo(dtype).eps) / 2
        assert disagreement([(truth * (1 + 4 * unit)).astype(dtype)], [truth], [1]) is None
        assert disagreement([(truth * (1 + 60 * unit)).astype(dtype)], [truth], [1]) is not None

    @pytest.mark.parametrize("accumulator", [np.float32, np.float64])
    @pytest.mark.parametrize("size", [257, 100_003])
    def test_sums_in_another_order_or_a_wider_dtype_are_right(self, size, accumulator):
        x = np.random.default_rng(size).normal(size=size).astype(np.float32)
        truth = np.add.accumulate(x, dtype=np.float64).astype(np.float32)
        assert disagreement([np.add.accumulate(x, dtype=accumulator).astype(np.float32)], [truth], [size]) is None

    def test_a_matrix_product_is_right_in_any_order(self):
        a, b = np.random.default_rng(0).normal(size=(2, 300, 300)).astype(np.float32)
        reordered = sum(np.multiply.outer(a[:, k], b[k]) for k in range(299, -1, -1))
        assert disagreement([reordered], [a @ b], [a.size, b.size]) is None

    def test_zeros_are_no_answer_to_a_tiny_truth(self):
        truth = np.full(100, 1e-30, np.float32)
        assert "relative error" in disagreement([np.zeros_like(truth)], [truth], [10**6])

    def test_the_small_elements_beside_large_ones_count(self):
        truth = np.logspace(-20, 20, 100).astype(np.float32)
        got = np.where(truth < 1, 0, truth).astype(np.float32)
        assert "(50 of 100 elements)" in disagreement([got], [truth], [1])

    def test_a_few_elements_in_which_terms_cancel_are_right(self):
        truth = np.ones(100, np.float32)
        truth[3] = 1e-6
        got = truth.copy()
        got[3] += 1e-7
        assert disagreement([got], [truth], [1]) is None

    def test_zeros_say_nothing_about_the_size_of_results(self):
        truth = np.zeros(100, np.float32)
        truth[:5] = 1.0
        got = truth.copy()
        got[50:] += 1e-7
        assert disagreement([got], [truth], [1]) is None
        got[50] += 1e-3
        assert "at [50]" in disagreement([got], [truth], [1])

    def test_rtol_replaces_the_tolerance(self):
        truth = np.ones(10, np.float32)
        assert disagreement([truth * np.float32(1.01)], [truth], [1], rtol=0.02) is None
        assert disagreement([truth * np.float32(1.01)], [truth], [1], rtol=0.005) is not None


MISTAKES = {
    "a wrong index": lambda x: np.roll(x, 1) + np.roll(x, -1),
    "a missing term": lambda x: np.roll(x, 1),
    "an unwritten half": lambda x: np.where(np.arange(x.size) < x.size // 2, x + np.roll(x, 1), 0),
    "an unwritten element": lambda x: np.where(np.arange(x.size) < x.size - 1, x + np.roll(x, 1), 0),
    "a sum of other elements at the edge": lambda x: x + np.concatenate([x[:1], x[:-1]]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", [257, 100_003])
def test_classic_mistakes_are_wrong(mistake, dtype, size):
    """The kernel should add each element and the one before it."""
    x = np.random.default_rng(size).normal(size=size).astype(dtype)
    assert disagreement([MISTAKES[mistake](x).astype(dtype)], [x + np.roll(x, 1)], [size]) is not None


@pytest.mark.parametrize("terms", [257, 20_000])
def test_a_sum_without_one_of_its_terms_is_wrong(terms):
    truth = np.array([terms], np.float32)
    assert disagreement([truth - 1], [truth], [terms]) is not None


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

    def test_subnormal_differences_do_not_count(self):
        truth = np.zeros(3, np.float32)
        assert disagreement([truth + np.float32(1e-40)], [truth], [1]) is None


DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "int32", "bool")


@st.composite
def cases(draw):
    """A result and its reference: equal but for a few elements, which differ by anything from rounding to NaN."""
    dtype = jnp.dtype(draw(st.sampled_from(DTYPES)))
    size = draw(st.integers(1, 9))
    values = st.sampled_from([0.0, 1.0, -1.0, 3.0, 1e-3, 1e4, np.nan, np.inf, -np.inf])
    if dtype.kind in "ib":
        values = st.sampled_from([0.0, 1.0, 3.0])
    expected = np.array(draw(st.lists(values, min_size=size, max_size=size))).astype(dtype)
    # Far from the tolerance of every dtype and size here: the device and the host may round differently.
    changes = {"right": 0.5, "wrong": 30.0, "special": np.nan}
    change = changes[draw(st.sampled_from(list(changes)))]
    where = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    if dtype.kind in "ib":
        return np.where(where, ~expected if dtype.kind == "b" else expected + 1, expected).astype(dtype), expected
    factor = 1 + change * default_rtol(dtype, [size])
    with np.errstate(all="ignore"):
        got = np.where(where, expected.astype(np.complex128) * factor, expected.astype(np.complex128))
        return (got if dtype.kind == "c" else got.real).astype(dtype), expected


@hypothesis.given(cases())
@hypothesis.settings(max_examples=100, deadline=None)
def test_the_host_and_the_device_give_one_verdict_on_each_element(case):
    got, expected = case
    if got.dtype.kind in "ib":
        return
    with np.errstate(all="ignore"):
        on_host = compare(np, got, expected, default_rtol(got.dtype, [got.size])).wrong
    with jax.enable_x64(True):
        on_device = compare(jnp, jnp.asarray(got), jnp.asarray(expected), default_rtol(got.dtype, [got.size])).wrong
    np.testing.assert_array_equal(on_host, on_device)


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


@hypothesis.given(cases(), st.sampled_from([None, 0.0, 1e-2, 1.0]))
@hypothesis.settings(
    max_examples=25, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_tune_and_debug_mode_accept_the_same_results(tmp_path, case, rtol):
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path))
        patch.setattr(race, "ROUNDS", 1)
        patch.setattr(clock, "SAMPLE_S", 0.0)
        assert accepted_by_tune(*case, rtol) == accepted_by_debug_mode(*case, rtol)
