"""Comparisons of two runs, and geometric means."""

import msgspec
import pytest

from reports.pages.alike import header_differences
from reports.pages.compare import compare
from reports.records.measurements import ProcessTimes
from reports.records.status import Status
from reports.statistics.means import geometric_mean
from reports.statistics.verdict_codes import Code, Verdict
from suites.unit.reports.builders import CPU, FLAGS, HOST, make_cell, make_pair, make_record, make_run, make_timing


def only(base, head):
    (comparison,) = compare(base, head, interleaved=True)
    return comparison


def test_two_times_of_one_cell_are_compared():
    comparison = only([make_record(median_ns=1000.0)], [make_record(median_ns=1500.0)])
    assert (comparison.verdict, comparison.code) == (Verdict.SLOWER, Code.BEYOND)
    assert (comparison.base_ns, comparison.head_ns, comparison.processes) == (1000.0, 1500.0, (5, 5))
    assert comparison.ratio == pytest.approx(1.5)
    assert comparison.low < 1.5 < comparison.high
    assert comparison.p == pytest.approx(2 / 252), "1 / C(10, 5), in two directions"
    assert comparison.reason is None
    assert comparison.is_bad


def test_a_faster_head_is_faster_and_not_bad():
    comparison = only([make_record(median_ns=1500.0)], [make_record(median_ns=1000.0)])
    assert comparison.verdict is Verdict.FASTER
    assert not comparison.is_bad
    assert not comparison.is_undecided


def test_equal_times_are_the_same():
    comparison = only([make_record()], [make_record(median_ns=1001.0)])
    assert (comparison.verdict, comparison.code) == (Verdict.SAME, Code.WITHIN)
    assert 0 < comparison.floor < comparison.worth < 0.05


@pytest.mark.parametrize("count", [1, 3])
def test_with_few_processes_even_a_large_difference_is_unsure_and_undecided(count):
    base, head = (make_record(timing=make_timing(median, across=[1.0] * count)) for median in (1000.0, 3300.0))
    comparison = only([base], [head])
    assert (comparison.verdict, comparison.code) == (Verdict.UNSURE, Code.FEW_PROCESSES)
    assert comparison.ratio == pytest.approx(3.3)
    assert (comparison.low, comparison.high) == (None, None)
    assert comparison.is_undecided
    assert comparison.reason.endswith("cannot be significant; at least 5 of each can")


def test_the_more_cells_the_more_processes_it_takes():
    sizes = range(1, 40)
    base = [make_record(make_cell(size=size)) for size in sizes]
    head = [make_record(make_cell(size=size), 1200.0 if size == 1 else 1000.0) for size in sizes]
    first = compare(base, head, interleaved=True)[0]
    assert (first.verdict, first.code) == (Verdict.UNSURE, Code.FEW_PROCESSES)
    assert "at least 8 of each can" in first.reason


def test_the_limits_are_options():
    base, head = [make_record()], [make_record(median_ns=1200.0)]
    assert compare(base, head, interleaved=True)[0].verdict is Verdict.SLOWER
    assert compare(base, head, interleaved=True, smallest={"cpu": 0.5})[0].verdict is Verdict.SAME
    assert compare(base, head, interleaved=True, q=0.001)[0].verdict is Verdict.UNSURE
    with pytest.raises(ValueError, match="expected a share between 0 and 1"):
        compare(base, head, q=5)


def test_runs_one_after_the_other_are_compared_by_their_ratios_to_jnp():
    """A machine that has become twice as slow is no regression of a kernel."""
    base, head = make_pair(1000.0, 500.0), make_pair(2000.0, 1000.0)
    jnp, numba = compare(base, head)
    assert (numba.verdict, numba.ratio) == (Verdict.SAME, pytest.approx(1.0))
    assert (jnp.verdict, jnp.code, jnp.ratio, jnp.is_undecided) == (Verdict.UNSURE, Code.BASELINE, None, False)
    assert compare(base, make_pair(2000.0, 1600.0))[1].verdict is Verdict.SLOWER


def test_runs_one_after_the_other_without_jnp_are_not_comparable():
    comparison = compare([make_record()], [make_record()])[0]
    assert (comparison.verdict, comparison.code) == (Verdict.NOT_COMPARABLE, Code.NO_BASELINE)
    assert comparison.reason.endswith("which has no steady time in base and head")
    assert comparison.is_undecided


def test_runs_one_after_the_other_need_a_large_difference():
    base, head = make_pair(1000.0, 500.0), make_pair(1000.0, 540.0)
    assert compare(base, head)[1].verdict is not Verdict.SLOWER
    assert compare(base, head, interleaved=True)[1].verdict is Verdict.SLOWER


def test_a_resumed_run_may_have_other_numbers_of_processes():
    base = [make_record(make_cell(backend="jnp"), timing=make_timing(across=(0.99, 1.0, 1.01))), make_record()]
    head = [*make_pair(1000.0, 1500.0)]
    assert compare(base, head)[1].verdict is Verdict.SLOWER
    assert compare(base, head)[1].processes == (5, 5)
    assert compare(base, head, interleaved=True)[0].processes == (3, 5)


def test_a_time_that_the_program_decides_is_not_compared():
    head = make_record(timing=make_timing(program_ns=[90_000.0], samples_ns=[1000.0], loops=10))
    base = make_record(timing=make_timing(program_ns=[11_000.0], samples_ns=[1000.0], loops=10))
    comparison = only([base], [head])
    assert (comparison.verdict, comparison.code) == (Verdict.NOT_COMPARABLE, Code.NOT_STEADY)
    assert comparison.reason == "the program around the calls decides the time of head"


def test_other_loops_are_no_hindrance():
    base, head = (
        make_record(timing=make_timing(processes=[ProcessTimes(samples_ns=[1000.0], loops=loops)] * 5))
        for loops in (1, 64)
    )
    assert only([base], [head]).verdict is Verdict.SAME


def test_the_last_record_of_each_side_counts():
    base = [make_record(status=Status.TIMEOUT), make_record(median_ns=10.0)]
    assert only(base, [make_record(median_ns=5.0)]).ratio == pytest.approx(0.5)


def test_cells_of_one_side_are_new_or_missing():
    verdicts = compare([make_record(make_cell(size=1))], [make_record(make_cell(size=2))])
    assert [(found.cell.size, found.verdict, found.ratio) for found in verdicts] == [
        (2, Verdict.NEW, None),
        (1, Verdict.MISSING, None),
    ]


def header(**changes):
    return {"run": make_run(**changes)}


HERE = msgspec.structs.replace(HOST, memory_bytes=1, machine="a")

INCOMPARABLE = {
    "cores": header(host=msgspec.structs.replace(HOST, cores=8)),
    "operating system": header(host=msgspec.structs.replace(HOST, os="Darwin")),
    "memory": header(host=msgspec.structs.replace(HERE, memory_bytes=2)),
    "machine": header(host=msgspec.structs.replace(HERE, machine="b")),
    "device kind": header(device=msgspec.structs.replace(CPU, kind="other")),
    "device uuid": header(device=msgspec.structs.replace(CPU, uuid="GPU-2")),
    "host cpu": header(host=msgspec.structs.replace(HOST, cpu="EPYC")),
    "affinity": header(host=msgspec.structs.replace(HOST, affinity=[0])),
    "threads numba": header(host=msgspec.structs.replace(HOST, threads={"numba": 1})),
    "flag x64": header(flags={**FLAGS, "x64": True}),
    "flag XLA_FLAGS": header(flags={**FLAGS, "XLA_FLAGS": "--xla_cpu_use_thunk_runtime=false"}),
    "flag matmul_precision": header(flags={**FLAGS, "matmul_precision": "highest"}),
    "operator version": {"cell": make_cell(operator_version=2)},
    "timing method": {"timing": make_timing(method="cupti")},
    "cache": {"timing": make_timing(cache="hot")},
    "shapes": {"shapes": [[64, 64]]},
    "dtypes": {"dtypes": ["float32", "int32"]},
    "seed": {"seed": 1},
}


CODES = {
    "affinity": Code.THREADS,
    "threads": Code.THREADS,
    "flag": Code.FLAGS,
    "timing": Code.METHOD,
    "cache": Code.CACHE,
    "operator version": Code.OPERATOR,
    "shapes": Code.SHAPES,
    "dtypes": Code.SHAPES,
    "seed": Code.SEED,
}


def test_a_machine_without_an_identity_is_not_another_one():
    assert only([make_record(run=make_run(host=HERE))], [make_record()]).verdict is Verdict.SAME


@pytest.mark.parametrize("difference", INCOMPARABLE)
def test_what_differs_is_not_comparable_and_named_with_both_values(difference):
    recorded = difference in ("memory", "machine")
    base = make_record(run=make_run(host=HERE)) if recorded else make_record()
    comparison = only([base], [make_record(**INCOMPARABLE[difference])])
    assert comparison.verdict is Verdict.NOT_COMPARABLE
    assert comparison.code is CODES.get(difference, CODES.get(difference.partition(" ")[0], Code.MACHINE))
    assert comparison.is_undecided
    assert comparison.reason.startswith(f"{difference}: base ")
    assert ", head " in comparison.reason
    assert ";" not in comparison.reason
    assert comparison.ratio is None


def test_every_difference_is_named():
    reason = only([make_record()], [make_record(seed=2, shapes=[[1]])]).reason
    assert reason == "shapes: base [[4096]], head [[1]]; seed: base 0, head 2"


def test_a_flag_that_is_not_recorded_counts_as_unset():
    head = make_record(run=make_run(flags={"x64": False}))
    assert only([make_record()], [head]).verdict is Verdict.SAME


def test_versions_and_commits_may_differ():
    head = make_record(run=make_run(versions={"jax": "0.11.2"}, run_id="head"))
    assert only([make_record()], [head]).verdict is Verdict.SAME


def test_a_failure_on_either_side_is_wrong():
    failed = make_record(status=Status.WRONG_VALUE, reason="812 ulp")
    for base, head, reason in [
        (make_record(), failed, "head WRONG_VALUE: 812 ulp"),
        (failed, make_record(), "base WRONG_VALUE: 812 ulp"),
        (failed, failed, "base and head WRONG_VALUE: 812 ulp"),
    ]:
        comparison = only([base], [head])
        assert (comparison.verdict, comparison.reason) == (Verdict.WRONG, reason)
        assert comparison.ratio is None
        assert comparison.is_bad == (head is failed), "what is wrong in base only has been fixed"
        assert not comparison.is_undecided


UNJUDGED = make_record(status=Status.UNCHECKED, reason="no bound")
WRONG = make_record(status=Status.WRONG_VALUE, reason="812 ulp")


@pytest.mark.parametrize(
    ("base", "head", "verdict", "code", "reason"),
    [
        (make_record(), UNJUDGED, Verdict.NOT_COMPARABLE, Code.UNJUDGED, "head UNCHECKED: no bound"),
        (UNJUDGED, make_record(), Verdict.NOT_COMPARABLE, Code.UNJUDGED, "base UNCHECKED: no bound"),
        (None, UNJUDGED, Verdict.NOT_COMPARABLE, Code.UNJUDGED, "head UNCHECKED: no bound"),
        (WRONG, UNJUDGED, Verdict.WRONG, Code.FAILED, "base WRONG_VALUE: 812 ulp; head UNCHECKED: no bound"),
        (UNJUDGED, None, Verdict.MISSING, Code.ABSENT, "not in head; base UNCHECKED: no bound"),
        (WRONG, None, Verdict.MISSING, Code.ABSENT, "not in head; base WRONG_VALUE: 812 ulp"),
    ],
)
def test_where_a_side_could_not_be_judged_nothing_is_decided(base, head, verdict, code, reason):
    comparison = only(*([] if side is None else [side] for side in (base, head)))
    assert (comparison.verdict, comparison.code, comparison.reason) == (verdict, code, reason)
    assert not comparison.is_bad
    assert comparison.is_undecided


def test_jnp_is_no_kernel_that_can_become_slower():
    jnp = make_cell(backend="jnp")
    slower = only([make_record(jnp)], [make_record(jnp, 2000.0)])
    assert (slower.verdict, slower.is_bad) == (Verdict.SLOWER, False)
    other = only([make_record(jnp)], [make_record(jnp, seed=1)])
    assert (other.verdict, other.is_undecided) == (Verdict.NOT_COMPARABLE, False)
    assert only([make_record(jnp)], [make_record(jnp, status=Status.WRONG_VALUE)]).is_bad
    missing = compare([make_record(jnp)], [make_record()], interleaved=True)[1]
    assert (missing.verdict, missing.is_undecided) == (Verdict.MISSING, True)


def test_a_failing_new_cell_is_wrong():
    assert only([], [make_record(status=Status.CRASHED)]).verdict is Verdict.WRONG


def test_a_wrong_cell_is_wrong_even_under_other_conditions():
    assert only([make_record(seed=1)], [make_record(status=Status.CRASHED)]).verdict is Verdict.WRONG


def test_skipped_is_absent_rather_than_wrong():
    skipped = make_record(status=Status.SKIPPED, reason="no float16")
    passed = make_record()
    assert only([passed], [skipped]).verdict is Verdict.MISSING
    assert only([skipped], [passed]).verdict is Verdict.NEW
    both = only([skipped], [skipped])
    assert (both.verdict, both.reason) == (Verdict.NOT_COMPARABLE, "skipped on both sides: no float16")


def test_what_was_not_timed_is_not_comparable():
    comparison = only([make_record(median_ns=None)], [make_record()])
    assert (comparison.verdict, comparison.reason) == (Verdict.NOT_COMPARABLE, "not timed: base")


def test_geometric_mean_has_its_count_and_losses_beside_it():
    mean = geometric_mean([0.5, 2.0, 4.0, None, float("nan"), 1.0])
    assert mean.mean == pytest.approx(4.0 ** (1 / 4))
    assert (mean.count, mean.losses) == (4, 2)


def test_the_geometric_mean_over_nothing_is_none():
    mean = geometric_mean([None])
    assert (mean.mean, mean.count, mean.losses) == (None, 0, 0)


def test_a_fact_that_was_not_recorded_is_said():
    base, head = (
        make_run(device=msgspec.structs.replace(CPU, uuid=None)),
        make_run(device=msgspec.structs.replace(CPU, uuid="a")),
    )
    assert header_differences(base, head) == [(Code.MACHINE, "device uuid: base not recorded, head 'a'")]
