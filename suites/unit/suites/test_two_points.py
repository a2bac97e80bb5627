"""Two points give the time of a call in a loop, whatever the program around the loop costs."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reports import RecordError, Timing
from suites.backends import BACKENDS
from suites.timing import measurement
from suites.timing.loops import Programs
from suites.timing.measurement import SingleCalls, TwoPoints
from suites.unit.bridge import kernels


class Simulated(Programs):
    """Programs whose times are known: a loop takes ``fixed`` seconds, and ``call`` seconds for each call."""

    @classmethod
    def of_times(cls, fixed, call, hiccup=lambda: 0.0, clock=None):
        clock = clock or Clock()

        def chained(loops, arguments):
            clock.seconds += fixed + loops * call + hiccup()

        def single(*arguments):
            clock.seconds += fixed + call + hiccup()

        return cls(single=single, chained=chained), clock


class Clock:
    seconds = 1.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def simulated(monkeypatch):
    def make(*arguments, **options):
        programs, clock = Simulated.of_times(*arguments, **options)
        monkeypatch.setattr(measurement.time, "perf_counter", clock)
        return programs

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
