"""A file of operators that replaces functions, or calls its own kernel in the reference, is refused by name."""

import time

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import numba_kernel
from suites import Operator, Truth, bounded
from suites.declare.contradictions import verify
from suites.errors import CatalogueError, OperatorError
from suites.numerics import verdict
from suites.sessions import untouched


@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


@pytest.mark.parametrize(
    ("owner", "name", "shown"),
    [
        (verdict, "judge", "suites.numerics.verdict.judge"),
        (verdict.Verdict, "__init__", "suites.numerics.verdict.Verdict.__init__"),
        (jnp, "sum", "jax.numpy.sum"),
        (time, "perf_counter", "time.perf_counter"),
    ],
)
def test_a_replaced_function_is_named(owner, name, shown, monkeypatch):
    untouched.remember()
    assert untouched.replaced() is None
    monkeypatch.setattr(owner, name, lambda *arguments: None)
    with pytest.raises(CatalogueError, match=f"^{shown} was replaced while the operators were imported"):
        untouched.require_untouched()


def test_other_code_in_the_same_function_is_seen(monkeypatch):
    untouched.remember()
    monkeypatch.setattr(verdict.judge, "__code__", (lambda results, truth: None).__code__)
    assert untouched.replaced() == "suites.numerics.verdict.judge"


def _double(**changes):
    return Operator(**{"name": "double", "reference": lambda x: 2 * x, "kernels": {"numba": double}, **changes})


def test_a_reference_that_calls_a_kernel_is_refused():
    def reference(x):
        return numba_kernel(double, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    verify(_double())
    with pytest.raises(OperatorError, match="double: reference calls a kernel \\(bridge_cpu\\)"):
        verify(_double(reference=reference))


@pytest.mark.parametrize("tolerance", [0.99, 0.2, 0, -1])
def test_a_tolerance_that_accepts_anything_is_refused(tolerance):
    with pytest.raises(OperatorError, match=r"double: tolerance is .*, expected a number such as 1e-5, at most 0\.1"):
        _double(tolerance=tolerance)


def test_a_truth_that_accepts_anything_is_refused():
    def truth(x):
        return Truth((bounded(np.asarray(2 * x, np.float64), x.dtype, ulps=1e9, condition=1e9, terms=10),))

    with pytest.raises(OperatorError, match="double: truth accepts zeros as well as ones for every sample in float32"):
        verify(_double(truth=truth))
