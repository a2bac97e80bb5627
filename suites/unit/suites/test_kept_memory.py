"""A process that checks many operators keeps the memory of one."""

import gc
import weakref

import jax
import numba
import pytest

from reports import Status
from suites import Operator
from suites.backends import BACKENDS
from suites.checks.judging.cell_verdict import judge_kernel
from suites.validate import memory_limit


@pytest.mark.parametrize(("most", "is_kept"), [(0, False), (1 << 60, True)])
def test_a_process_that_keeps_too_much_forgets_the_operators_that_it_has_checked(monkeypatch, most, is_kept):
    monkeypatch.setattr(memory_limit, "LIMIT_BYTES", most)
    operator = _doubled()
    inputs = operator.sample("float32", 100, 0)
    assert judge_kernel(operator, BACKENDS["numba"], inputs, jax.devices("cpu")[0]).status is Status.PASSED
    kept = weakref.ref(operator)
    del operator
    memory_limit.free_memory()
    gc.collect()
    assert (kept() is not None) == is_kept


def _doubled():
    @numba.njit
    def twice(x, out):
        for i in range(x.size):
            out[i] = x[i] * 2

    return Operator(name="twice", reference=lambda x: x * 2, kernels={"numba": twice})
