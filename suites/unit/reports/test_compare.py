"""Comparisons of two runs, and geometric means."""

import msgspec
import pytest

from reports.pages.alike import header_differences
from reports.pages.compare import compare
from reports.statistics.means import geometric_mean
from reports.statistics.verdict_codes import Verdict
from reports.records.status import Status
from suites.unit.reports.builders import CPU, FLAGS, HOST, make_cell, make_record, make_run, make_timing


def only(base, head):
    (comparison,) = compare(base, head)
    return comparison


def test_two_times_of_one_cell_are_compared():
    comparison = only([make_record(median_ns=1000.0)], [make_record(median_ns=1500.0)])
    assert comparison.verdict is Verdict.COMPARED
    assert (comparison.base_ns, comparison.head_ns, comparison.ratio) == (1000.0, 1500.0, 1.5)
    assert comparison.reason is None


def test_the_last_record_of_each_side_counts():
    base = [make_record(status=Status.TIMEOUT), make_record(median_ns=10.0)]
    assert only(base, [make_record(median_ns=5.0)]).ratio == 0.5


def test_cells_of_one_side_are_new_or_missing():
    verdicts = compare([make_record(make_cell(size=1))], [make_record(make_cell(size=2))])
    assert [(found.cell.size, found.verdict, found.ratio) for found in verdicts] == [
        (2, Verdict.NEW, None),
        (1, Verdict.MISSING, None),
    ]


def header(**changes):
    return {"run": make_run(**changes)}


INCOMPARABLE = {
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


@pytest.mark.parametrize("difference", INCOMPARABLE)
def test_what_differs_is_not_comparable_and_named_with_both_values(difference):
    comparison = only([make_record()], [make_record(**INCOMPARABLE[difference])])
    assert comparison.verdict is Verdict.NOT_COMPARABLE
    assert comparison.reason.startswith(f"{difference}: base ")
    assert ", head " in comparison.reason
    assert ";" not in comparison.reason
    assert comparison.ratio is None


def test_every_difference_is_named():
    reason = only([make_record()], [make_record(seed=2, shapes=[[1]])]).reason
    assert reason == "shapes: base [[4096]], head [[1]]; seed: base 0, head 2"


def test_a_flag_that_is_not_recorded_counts_as_unset():
    head = make_record(run=make_run(flags={"x64": False}))
    assert only([make_record()], [head]).verdict is Verdict.COMPARED


def test_versions_and_commits_may_differ():
    head = make_record(run=make_run(versions={"jax": "0.11.2"}, run_id="head"))
    assert only([make_record()], [head]).verdict is Verdict.COMPARED


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


def test_a_failing_new_cell_is_wrong():
    assert only([], [make_record(status=Status.CRASHED)]).verdict is Verdict.WRONG


def test_a_wrong_cell_is_wrong_even_under_other_conditions():
    assert only([make_record(seed=1)], [make_record(status=Status.OOM)]).verdict is Verdict.WRONG


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
    assert header_differences(base, head) == ["device uuid: base not recorded, head 'a'"]
