"""How fast is each cell? Only a cell that has just been proved right is timed, and each leaves a record."""

import jax
import pytest

from reports import Status, Timing
from suites.bench import timing
from suites.judging.cell_verdict import check, described, precision, with_reference
from suites.judging.repetition import REPEATED_ABOVE
from suites.sessions.timing_plugin import PLUGIN, work


@pytest.fixture(scope="session")
def recorder(pytestconfig):
    return pytestconfig.pluginmanager.getplugin(PLUGIN).recorder


class _EnoughSamples(Exception):
    """Ends ``benchmark.pedantic``, which offers no other way to end before its last round."""


def _sample(benchmark, plan, limit_s):
    """Times one cell with pytest-benchmark; returns the seconds of each sample, and why sampling ended.

    A plan that takes its own samples takes a batch of them in each round.
    """
    rule = timing.StopRule(limit_s)
    stop = []

    def taken():
        return plan.seconds if plan.seconds is not None else benchmark.stats.stats.data

    def ask_stop_rule():
        samples = taken()
        reason = rule.reason(samples)
        if reason:
            stop.append(reason)
            raise _EnoughSamples

    try:
        benchmark.pedantic(plan.run, setup=ask_stop_rule, rounds=1_000_000)
    except _EnoughSamples:
        benchmark.has_error = False
    return list(taken()), stop[0]


def _measure(case, inputs, benchmark, limit_s):
    """What is recorded of one cell: status, reason, accuracy, stages, timing."""
    with precision(case.dtype), jax.default_device(case.device):
        try:
            stages, _ = timing.stages(case.operator, case.backend, inputs)
        except Exception as error:
            return {"status": Status.COMPILE_ERROR, "reason": described(error)}
        verdict = check(case.operator, case.backend, inputs, case.device)
        if case.size <= REPEATED_ABOVE:  # XLA's own error on more would take seconds, and shows in smaller cells
            verdict = with_reference(verdict, case.operator, inputs)
        found = {"status": verdict.status, "reason": verdict.reason, "accuracy": verdict.accuracy, "stages": stages}
        if verdict.status is not Status.PASSED:
            return found
        try:
            plan = timing.plan(case.operator, case.backend, inputs)
            seconds, stop = _sample(benchmark, plan, limit_s)
        except Exception as error:
            return found | {"status": Status.RUNTIME_ERROR, "reason": described(error)}
    samples_ns = [1e9 * sample / plan.loops for sample in seconds]
    return found | {
        "timing": Timing(method=plan.method, cache=plan.cache, samples_ns=samples_ns, loops=plan.loops, stop=stop)
    }


def test_speed(speed_case, benchmark, recorder):
    if benchmark.disabled:
        pytest.fail("pytest-benchmark is disabled (--benchmark-disable, or xdist), so nothing can be timed; enable it.")
    try:
        inputs = speed_case.inputs()
        found = _measure(speed_case, inputs, benchmark, recorder.limit_s)
        found |= work(speed_case, inputs)
    except Exception as error:  # of the operator's own functions; every cell leaves a record
        found = {"status": Status.RUNTIME_ERROR, "reason": described(error)}
    record = recorder.record(speed_case, found)
    assert record.status is Status.PASSED, f"{record.status}: {record.reason}"
