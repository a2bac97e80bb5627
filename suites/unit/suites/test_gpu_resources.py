"""Memory and energy of a call."""

import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from suites.bench.gpu_resources import _grown_bytes, energy_per_call, planned_bytes, resources

SIZE = 1 << 16


def test_results_and_temporary_arrays_are_planned():
    x = jnp.ones(SIZE)
    small = planned_bytes(jax.jit(lambda x: 2 * x).lower(x).compile())
    large = planned_bytes(jax.jit(lambda x: jnp.sort(jnp.cumsum(x))[::-1] @ jnp.sort(jnp.sin(x))).lower(x).compile())
    assert small == 4 * SIZE
    assert large > 4 * SIZE  # a single number is the result


def test_a_result_in_the_memory_of_an_input_takes_none():
    program = jax.jit(lambda x: x + 1, donate_argnums=0).lower(jnp.ones(SIZE)).compile()
    assert planned_bytes(program) == 0


def test_resources_of_a_jitted_function_and_of_a_compiled_one():
    x = jnp.ones(SIZE)
    function = jax.jit(lambda x: 2 * x)
    for program in (function, function.lower(x).compile()):
        found = resources(program, [x], burst_s=0)
        assert (found.device_bytes, found.energy_j, found.host_bytes) == (4 * SIZE, None, None)


def allocator(*stats):
    rest = iter([dict(zip(("bytes_in_use", "peak_bytes_in_use"), each, strict=True)) for each in stats])
    return SimpleNamespace(memory_stats=lambda: next(rest))


def test_the_allocator_tells_more_only_at_a_new_peak_of_the_process():
    assert _grown_bytes(lambda: None, allocator((100, 200), (100, 450))) == 350
    assert _grown_bytes(lambda: None, allocator((100, 500), (100, 500))) is None
    assert _grown_bytes(lambda: None, SimpleNamespace(memory_stats=lambda: None)) is None


class Board:
    """A board that takes a power for each call of 1 ms, and counts it in steps."""

    def __init__(self, step_s, watts=300.0):
        self.time, self.step_s, self.watts, self.calls = 0.0, step_s, watts, 0

    def call(self):
        self.time += 1e-3
        self.calls += 1
        return np.ones(1)

    def read_j(self):
        return self.watts * (self.time // self.step_s) * self.step_s

    def now(self):
        return self.time


@pytest.mark.parametrize("step_s", [0.001, 0.02, 0.1, 0.3])
def test_a_coarse_counter_does_not_matter(step_s):
    board = Board(step_s)
    assert energy_per_call(board.call, board.read_j, board.now, 0.3) == pytest.approx(0.3, rel=0.05)
    assert board.time < 1.5


@pytest.mark.parametrize(("work_s", "counts"), [(0.95e-3, True), (0.5e-3, False), (20e-6, False)])
def test_calls_that_leave_the_device_idle_have_no_energy(work_s, counts):
    board = Board(0.02)
    found = energy_per_call(board.call, board.read_j, board.now, 0.3, work_s)
    assert (found is not None) == counts


def test_a_counter_that_is_not_there_or_does_not_move_gives_nothing():
    board = Board(0.1)
    assert energy_per_call(board.call, lambda: None, board.now, 0.3) is None
    assert energy_per_call(board.call, lambda: 7.0, board.now, 0.3) is None
    assert board.time < 5.0
    readings = itertools.chain([1.0, 2.0], itertools.repeat(None))
    assert energy_per_call(board.call, lambda: next(readings), board.now, 0.3) is None
