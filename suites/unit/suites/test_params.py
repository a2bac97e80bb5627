"""The matrix of cells: complete, named so that it reads aloud, nothing left out in silence."""

import re

import pytest

from suites import params
from suites.backends import Backend
from suites.ops import operators

ALL = [table(platform) for table in params.TABLES.values() for platform in ("cpu", "cuda")]


@pytest.mark.parametrize("table", ALL)
def test_ids_are_unique_and_read_aloud(table):
    ids = [param.id for param in table]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"\w+-\w+-\w+-(\d+|\w+|\d+-\w+)-(cpu|cuda)", name) for name in ids)


def test_id_of_a_cell_is_that_of_its_record():
    case = params.Case(operators()["lif_step"], Backend.NUMBA, "float32", 4096, "cpu")
    assert case.id == case.cell.id == "lif_step-numba-f32-4096-cpu"


def test_every_operator_backend_and_dtype_is_in_the_matrix():
    found = {(p.values[0].operator.name, p.values[0].backend, p.values[0].dtype) for p in params.samples("cpu")}
    declared = {(o.name, b, dtype) for o in operators().values() for b in Backend for dtype in o.dtypes}
    assert found == declared


def test_absent_device_is_a_skip_with_a_reason(monkeypatch):
    monkeypatch.setattr(params, "_absent", lambda platform: f"no {platform} device")
    marks = [mark for param in params.samples("cuda") for mark in param.marks]
    assert marks
    assert all(mark.name == "skip" and mark.kwargs["reason"] for mark in marks)
    reasons = {mark.kwargs["reason"] for mark in marks}
    assert reasons >= {"no cuda device", "numba runs on cpu, not on cuda"}


def test_nothing_is_skipped_on_the_cpu():
    assert not [param.id for table in params.TABLES.values() for param in table("cpu") if param.marks]


def test_backends_of_a_timed_cell_follow_each_other_reference_first():
    for profile in ("quick", "full"):
        cells = [param.values[0] for param in params.speeds("cpu", profile)]
        backends = list(Backend)
        for start in range(0, len(cells), len(backends)):
            group = cells[start : start + len(backends)]
            assert [case.backend for case in group] == backends
            assert len({(case.operator.name, case.dtype, case.size) for case in group}) == 1


def test_samples_are_shared_and_read_only():
    case = params.samples("cpu")[0].values[0]
    assert case.inputs() is case.inputs()
    with pytest.raises(ValueError, match="read-only"):
        case.inputs()[0][0] = 1
