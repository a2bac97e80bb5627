"""Loops of calls count the calls that differ."""

import jax
import numba
import numpy as np

from suites import Operator
from suites.backends import BACKENDS
from suites.cells.case import Case
from suites.checks.judging.call_loops import keeps_bits, prepare
from suites.mutants.memory import address_of_zeros, array_at

CALLS = address_of_zeros(1, np.int64)


@numba.njit
def wrong_later(x, out):
    """Counts its calls; from the eleventh on, the last element is wrong."""
    calls = array_at(CALLS, 1, np.int64)
    calls[0] += 1
    for i in range(x.size):
        out[i] = 2 * x[i]
    if calls[0] > 10:
        out[x.size - 1] += 1


@numba.njit(parallel=True)
def total(x, out):
    running = x.dtype.type(0)
    for i in numba.prange(x.size):
        running += x[i]
    out[0] = running


DOUBLE = Operator(name="double", reference=lambda x: 2 * x, kernels={"numba": wrong_later})
TOTAL = Operator(name="total", reference=lambda x: x.sum()[None], kernels={"numba": total})


def _case(operator):
    return Case(operator, BACKENDS["numba"], "float32", 5, "cpu")


def test_a_loop_counts_the_calls_that_differ_and_keeps_the_first():
    case = _case(DOUBLE)
    sets = [DOUBLE.sample("float32", 5, seed) for seed in range(3)]
    array_at(CALLS, 1, np.int64)[0] = 0
    loop = prepare(case, sets, jax.devices("cpu")[0])  # makes three calls
    assert [np.asarray(leaf[1]).tolist() for leaf in loop.expected] == [(2 * sets[1][0]).tolist()]
    assert loop.run(7).differing == 0
    run = loop.run(6)
    assert (run.differing, run.first) == (6, 0)
    expected = 2 * sets[0][0]
    expected[-1] += 1
    assert np.array_equal(run.results[0], expected)


def test_results_of_parallel_loops_may_differ_by_their_margins():
    case = _case(TOTAL)
    assert not keeps_bits(case)
    assert keeps_bits(_case(DOUBLE))
    loop = prepare(case, [TOTAL.sample("float32", 5, seed) for seed in range(2)], jax.devices("cpu")[0])
    loop.expected[0] = loop.expected[0] * np.float32(1 + 1e-7)
    assert loop.run(4).differing == 0
    loop.expected[0] = loop.expected[0] + np.float32(0.01)
    assert loop.run(4).differing == 4
