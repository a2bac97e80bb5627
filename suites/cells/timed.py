"""Lists the cells that a benchmark times."""

from __future__ import annotations

from typing import Any

from suites.backends.backend import Backend
from suites.cells.case import Case
from suites.cells.grid import grid
from suites.cells.marks import as_parameter
from suites.cells.selection import Selection

_TIMED_DTYPES = ("float32", "float64", "int32", "int64")


def timed_cells(selection: Selection) -> list[Any]:
    """Returns the pytest parameters of every cell to time; the backends of one cell follow each other.

    The quick profile times operators in their first dtype; of operators that resemble each other it times one, unless
    the selection names operators. The full one times all, in all dtypes that tables compare. Dtypes and sizes that the
    selection names replace the profile's.
    """
    platform, profile = selection.device, selection.profile
    cases = grid(platform, lambda operator: selection.sizes or operator.sizes.of(platform, profile))
    chosen = [case for case in cases if selection.has(case) and (selection.dtypes or _is_timed(case, profile))]
    if profile == "quick" and not selection.operators:
        chosen = [case for case in chosen if not case.operator.sizes.quick_by_name]
    order = list(Backend)
    chosen.sort(key=lambda case: (case.operator.name, case.dtype, case.size, order.index(case.backend)))
    return [as_parameter(case) for case in chosen]


def _is_timed(case: Case, profile: str) -> bool:
    dtypes = [dtype for dtype in case.operator.dtypes if dtype in _TIMED_DTYPES] or case.operator.dtypes
    return case.dtype in (dtypes[:1] if profile == "quick" else dtypes)
