"""Timing measures what it says: every call in the loop happens, and sampling ends for a stated reason."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from suites import timing
from suites.backends import Backend
from suites.bandwidth import cache_bytes, level_of
from suites.check import missing_custom_call
from suites.ops import operators
from suites.params import backends


@numba.njit
def count_up(x, out, before):
    out[0] = x[0] + 1
    before[0] = x[0]


def test_chained_calls_all_happen_each_after_the_one_before():
    outs = [jax.ShapeDtypeStruct((1,), np.int32)] * 2
    program = timing.chain(Backend.NUMBA.build(count_up, outs), outs, 0)
    out, before = program(17, [jnp.zeros(1, jnp.int32)])
    assert (int(out[0]), int(before[0])) == (17, 16)


@pytest.mark.parametrize("name", operators())
def test_loop_of_every_operator_contains_one_call(name):
    operator = operators()[name]
    inputs = operator.sample("float32", 4096, 0)
    call = operator.build(Backend.NUMBA, inputs)
    program = timing.chain(call, operator.outputs(*inputs), operator.feedback)
    text = program.lower(10, list(map(jnp.asarray, inputs))).compile().as_text()
    assert missing_custom_call(text, Backend.NUMBA, "cpu") is None
    body = text[: text.index("ENTRY")]
    assert "custom-call" in body  # inside the loop, not before it


def test_reference_in_a_loop_is_computed_in_full():
    operator = operators()["add"]
    inputs = operator.sample("float32", 4096, 0)
    call = operator.build(Backend.JNP, inputs)
    (result,) = timing.chain(call, operator.outputs(*inputs), operator.feedback)(5, list(map(jnp.asarray, inputs)))
    expected = inputs[0] + inputs[1]
    assert np.array_equal(np.asarray(result)[1:], expected[1:])
    assert float(result[0]) == pytest.approx(float(inputs[0][0] + 5 * inputs[1][0]), rel=1e-5)


def test_backends_of_a_cell_share_one_method():
    operator = operators()["sum"]
    for size, method in ((4096, "carried_loop"), (2**18, "wall")):
        inputs = operator.sample("float32", size, 0)
        assert {timing.plan(operator, backend, inputs).method for backend in backends(operator, "cpu")} == {method}


def test_stages_are_told_apart():
    operator = operators()["add"]
    stages, program = timing.stages(operator, Backend.JNP, operator.sample("float32", 10, 0))
    assert all(ms > 0 for ms in (stages.trace_ms, stages.lower_ms, stages.compile_ms, stages.first_call_ms))
    assert program.as_text()


class TestStopRule:
    def test_goes_on_below_the_least_number_of_samples(self):
        assert timing.StopRule(60).reason([1.0] * (timing.LEAST_SAMPLES - 1)) is None

    def test_stops_when_the_median_is_known(self):
        assert timing.StopRule(60).reason([1.0] * timing.LEAST_SAMPLES) == "median known to 0.5 %"

    def test_goes_on_while_noise_shrinks(self):
        noisy = [1.0, 2.0] * timing.LEAST_SAMPLES
        assert timing.StopRule(60).reason(noisy) is None

    def test_stops_when_more_samples_do_not_help(self):
        rule, samples, reason = timing.StopRule(60), [], None
        while reason is None:
            samples += [1.0, 2.0] * timing.LEAST_SAMPLES
            reason = rule.reason(samples)
        assert reason == "stable noise"

    def test_stops_when_time_is_up(self):
        assert timing.StopRule(0).reason([1.0, 2.0] * timing.LEAST_SAMPLES) == "time limit"
        assert timing.StopRule(-1).reason([1.0]) == "time limit"


def test_levels_of_the_memory_hierarchy_are_ordered():
    sizes = cache_bytes()
    assert 0 < sizes["L2"] < sizes["L3"]
    found = [level_of(size) for size in (0, sizes["L2"], sizes["L2"] + 1, sizes["L3"], sizes["L3"] + 1)]
    assert found == ["L2", "L2", "L3", "L3", "memory"]
