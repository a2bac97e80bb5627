"""Lists the cells that a benchmark times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from suites.backends.backend import Backend
from suites.bench.both_directions import case_of_both_directions
from suites.cells.case import Case
from suites.cells.grid import backends, grid, peers
from suites.cells.marks import as_parameter
from suites.cells.selection import Selection
from suites.declare.operator import Operator

MODES = ("forward", "forward+backward")
"""What a timed call computes: the outputs, or the outputs and the derivatives."""

_TIMED_DTYPES = ("float32", "float64", "int32", "int64")

_HOT_UP_TO = {"quick": 1 << 16, "full": 1 << 22}
"""Nominal size up to which a GPU times a cell with its data in the cache, by profile."""

_COLD_FROM = {"quick": 1 << 17, "full": 1}
"""Nominal size from which it times a cell with its data in memory."""


def timed_cells(selection: Selection) -> list[Any]:
    """Returns the pytest parameters of every cell to time; the backends of one cell follow each other.

    The quick profile times operators in their first dtype; of operators that resemble each other it times one, unless
    the selection names operators. The full one times all, in all dtypes that tables compare, also with derivatives.
    Dtypes, sizes and modes that the selection names replace the profile's. Functions of other libraries are cells too
    if the selection asks for peers; they have no derivatives.
    """
    platform, profile = selection.device, selection.profile
    cases = grid(
        platform,
        lambda operator: selection.sizes or operator.sizes.of(platform, profile),
        backends_and_peers if selection.peers else backends,
    )
    chosen = [case for case in cases if selection.has(case) and (selection.dtypes or _is_timed(case, profile))]
    if profile == "quick" and not selection.operators:
        chosen = [case for case in chosen if not case.operator.sizes.quick_by_name]
    order = list(Backend)
    chosen.sort(key=lambda case: (case.operator.name, case.dtype, case.size, order.index(case.backend)))
    variants = [each for case in chosen for each in _variants(case, selection)]
    variants.sort(key=lambda case: (case.operator.name, case.dtype, case.size, case.mode, case.cache or ""))
    return [as_parameter(case) for case in variants]


def backends_and_peers(operator: Operator, platform: str) -> list[Backend]:
    """Returns the backends of an operator on a platform, and the libraries that compute the same."""
    return [*backends(operator, platform), *peers(operator, platform)]


def _is_timed(case: Case, profile: str) -> bool:
    dtypes = [dtype for dtype in case.operator.dtypes if dtype in _TIMED_DTYPES] or case.operator.dtypes
    return case.dtype in (dtypes[:1] if profile == "quick" else dtypes)


def _variants(case: Case, selection: Selection) -> Iterator[Case]:
    """Yields the case in the modes and states of the cache that are timed."""
    profile = selection.profile
    states: list[str | None] = [None]
    if case.platform != "cpu":
        hot, cold = case.size <= _HOT_UP_TO[profile], case.size >= _COLD_FROM[profile]
        states = [*(["hot"] if hot else []), *(["cold"] if cold else [])] or ["cold"]
    for mode in selection.modes or (MODES if profile == "full" and case.in_first_dtype else MODES[:1]):
        if mode == MODES[0]:
            yield from (replace(case, cache=state) for state in states)
        elif case.backend.library is None and (both := case_of_both_directions(case)) is not None:
            yield from (replace(both, cache=state) for state in states)
