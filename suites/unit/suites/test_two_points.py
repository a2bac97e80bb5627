"""Two points give the time of a call in a loop, whatever the program around the loop costs."""

import random

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from reports import RecordError, Timing
from suites.backends import BACKENDS
from suites.mutants.memory import address_of_zeros, array_at
from suites.ops import operators
from suites.timing import measurement
from suites.timing.loops import Programs, chain
from suites.timing.measurement import SingleCalls, TwoPoints
from suites.timing.timed_cell import stages
from suites.unit.bridge import kernels


@pytest.fixture
def simulated(monkeypatch):
    """Makes programs whose times are known: a loop takes ``fixed`` seconds, and ``call`` seconds for each call."""
    now = [1.0]
    monkeypatch.setattr(measurement.time, "perf_counter", lambda: now[0])

    def make(fixed, call, hiccup=lambda: 0.0):
        def chained(loops, arguments):
            now[0] += fixed + loops * call + hiccup()

        return Programs(single=lambda *arguments: chained(1, arguments), chained=chained)

    return make


@pytest.mark.parametrize("fixed", [0.0, 1e-6, 5e-5, 1e-3, 0.02])
@pytest.mark.parametrize("call", [1e-8, 3e-7, 2e-5, 4e-4, 0.03])
def test_the_fixed_cost_of_a_program_is_no_part_of_the_time(simulated, fixed, call):
    timed = TwoPoints(simulated(fixed, call), [], None, random.Random(0))
    for _ in range(5):
        timed.round()
    times = timed.times()
    assert times.median_ns == pytest.approx(1e9 * call, rel=1e-6)
    assert times.fixed_ns == pytest.approx(1e9 * fixed, abs=1 + 1e-6 * 1e9 * fixed)


@pytest.mark.parametrize("call", [1e-8, 7e-7, 1e-5])
def test_hiccups_do_not_end_the_search_for_the_number_of_calls(simulated, call):
    """The operating system interrupts every third run for as long as forty thousand calls."""
    for seed in range(50):
        order = random.Random(seed)
        programs = simulated(5e-5, call, lambda: 4e4 * call if order.random() < 0.3 else 0.0)  # noqa: B023
        timed = TwoPoints(programs, [], None, random.Random(0))
        assert timed.loops * call > 0.7 * measurement.SHORT_S


def test_a_long_call_is_not_repeated_for_long(simulated):
    assert TwoPoints(simulated(1e-4, 0.5), [], None, random.Random(0)).loops == 1
    assert (
        TwoPoints(simulated(0.5, 0.001), [], None, random.Random(0)).loops <= 13
    )  # not as long as the fixed part asks


def test_times_below_the_noise_are_refused(simulated):
    order = random.Random(2)
    timed = TwoPoints(simulated(1e-3, 0.0, lambda: 1e-4 * order.random()), [], 1, random.Random(0))
    for _ in range(9):
        timed.round()
    try:
        found = timed.times()
    except RecordError:
        return
    assert not Timing(method="two_points", cache="hot", processes=[found], stop="").is_steady


@pytest.mark.parametrize("size", [64, 1 << 20])
def test_every_program_of_a_kernel_computes(size):
    x = jnp.arange(float(size), dtype=jnp.float32)
    outs = [jax.ShapeDtypeStruct(x.shape, x.dtype)]
    programs = Programs.of(BACKENDS["numba"].build(kernels.double, outs), outs, [x])
    programs.compile([x])
    for result in (programs.single(x), programs.chained(3, [x])):
        assert np.array_equal(np.ravel(jax.tree.leaves(result)[0]), 2 * np.arange(size, dtype=np.float32))


def test_a_call_that_cannot_be_chained_is_timed_alone():
    outs = [jax.ShapeDtypeStruct((8,), np.float32)]
    programs = Programs.of(lambda: [jnp.ones(8)], outs, [])
    assert programs.chained is None
    programs.compile([])
    timed = SingleCalls(programs, [])
    timed.round()
    assert timed.times().samples_ns
    assert timed.method == "wall"


# Every call in a loop happens, on unchanged inputs.


CALLS, UNEQUAL = (address_of_zeros(1, np.int64) for _ in range(2))
FIRST = 5


@numba.njit
def counted_gather(indices, x, out):
    """Counts its calls, and those whose first index is another than it was."""
    array_at(CALLS, 1, np.int64)[0] += 1
    array_at(UNEQUAL, 1, np.int64)[0] += indices[0] != FIRST
    for i in range(out.size):
        out[i] = x[indices[i]]


def _count(address):
    return int(array_at(address, 1, np.int64)[0])


def test_chained_calls_all_happen_on_unchanged_integers():
    """Floats as indices would lie far outside of ``x``, and crash the process."""
    indices, x = np.array([FIRST, 0, 7, *range(8)], np.int32), 1000 * np.arange(8, dtype=np.int32)
    outs = [jax.ShapeDtypeStruct(indices.shape, np.float32)]
    call = BACKENDS["numba"].build(counted_gather, outs)
    programs = Programs.of(call, outs, (indices, x))
    calls, unequal = _count(CALLS), _count(UNEQUAL)
    (result,) = programs.chained(17, [indices, x])
    assert np.array_equal(result, x[indices])
    assert (_count(CALLS) - calls, _count(UNEQUAL) - unequal) == (17, 0)


def test_chained_calls_depend_on_each_other_as_far_as_xla_can_know():
    outs = [jax.ShapeDtypeStruct((8,), np.float32)]
    call = BACKENDS["numba"].build(operators()["add"].kernels[BACKENDS["numba"]], outs)
    x = jnp.arange(1.0, 9.0)
    program = chain(lambda x: [2 * each for each in jax.tree.leaves(call(x, jnp.zeros(8)))], outs, [x])
    assert [float(program(4, changes, [x])[0][0]) for changes in (False, True)] == [2, 16]


def test_stages_are_told_apart():
    operator = operators()["add"]
    found = stages(operator, BACKENDS["jnp"], operator.sample("float32", 10, 0))
    assert all(ms > 0 for ms in (found.trace_ms, found.lower_ms, found.compile_ms, found.first_call_ms))
