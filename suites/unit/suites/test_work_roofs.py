"""The work that limits a call decides its roof: bytes, operations or scattered reads."""

import numpy as np
import pytest

from reports import CellResult, Status
from suites import Gathers
from suites.cells.case import Case
from suites.ops import operators
from suites.timing import device_limits, gpu_roofs
from suites.timing.bandwidth import Roof
from suites.timing.device_limits import compare_with_limits
from suites.timing.gpu_roofs import arithmetic_roof, gather_roof
from suites.timing.timed_cell import TimedCell
from suites.unit.reports.builders import make_timing


def test_a_dtype_without_a_measured_peak_has_no_arithmetic_roof():
    assert arithmetic_roof(10**12, "float16", lambda dtype: 6e12) is None


def test_scattered_reads_take_their_number_over_the_rate_of_their_table():
    asked = []
    roof = gather_roof(10**9, 4000, 4, lambda *table: asked.append(table) or 1e11)
    assert roof == (0.01, "scattered reads of 4 bytes (100 G/s)")
    assert asked == [(4000, 4)]


def test_an_operator_says_what_it_reads_so():
    data, x = np.zeros(50, np.float32), np.zeros(7, np.float64)
    assert Gathers(reads=lambda data, x: data.size, table=lambda data, x: x).of(data, x) == (50, 56, 8)


@pytest.mark.parametrize(
    ("operator", "rates", "kind"),
    [
        ("csr_matvec", (1e12, 1e12), "scattered reads of 4 bytes"),
        ("csr_matvec", (1e18, 1e18), "copy, memory"),
        ("nbody", (1e18, 1e9), "fused multiply-adds, float32"),
    ],
)
def test_a_cell_records_what_limits_it(monkeypatch, operator, rates, kind):
    monkeypatch.setattr(device_limits.gpu_roofs, "roof", lambda *moved: Roof(1e12, "copy, memory"))
    monkeypatch.setattr(gpu_roofs, "gather_rate", lambda *table: rates[0] / 1e3)
    monkeypatch.setattr(gpu_roofs, "arithmetic_peak", lambda dtype: rates[1])
    cell = timed(operator)
    compare_with_limits(cell)
    assert cell.result.status is Status.PASSED
    assert cell.result.roof_kind.startswith(kind)
    assert cell.result.roof_share == pytest.approx(cell.result.roof_ns / 1e9)


def timed(operator):
    """A cell on a GPU that took a second."""
    declared = operators()[operator]
    inputs = declared.sample("float32", 4096, 0)
    cell = TimedCell(Case(declared, declared.backends()[0], "float32", 4096, "cuda"))
    cell.moved = declared.bytes_read(*inputs), declared.bytes_written(*inputs)
    cell.gathers = None if declared.gathers is None else declared.gathers.of(*inputs)
    cell.note(flops=declared.flops(*inputs), bytes=sum(cell.moved), timing=make_timing(1e9))
    assert isinstance(cell.result, CellResult)
    return cell
