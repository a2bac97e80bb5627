"""Lists the cells that a benchmark times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from suites.backends import BACKENDS, Backend
from suites.cells.case import Case
from suites.cells.grid import backends, grid
from suites.cells.parts import share
from suites.cells.selection import Selection
from suites.declare.operator import Operator

_TIMED_DTYPES = ("float32", "float64", "bfloat16", "float8_e4m3fn", "int32", "int64")

_HOT_UP_TO = {"quick": 1 << 16, "full": 1 << 22}
"""Nominal size up to which a GPU times a cell with its data in the cache, by profile."""

_COLD_FROM = {"quick": 1 << 17, "full": 1}
"""Nominal size from which a GPU times a cell with its data in memory, by profile."""


def timed_cells(selection: Selection) -> list[Case]:
    """Returns every cell to time; the cells that differ in backend only follow each other.

    The quick profile times operators in their first dtype; of operators that resemble each other it times one, unless
    the selection names operators. The full profile times all, in all dtypes that tables compare. Dtypes and sizes that
    the selection names replace the profile's. If the selection asks for peers, functions of other libraries are cells
    too. A part of the run never splits a group of backends.
    """
    groups = timed_groups(selection)
    own = share({group: len(cases) for group, cases in groups.items()}, selection.part)
    return [case for group, cases in groups.items() if group in own for case in cases]


def timed_groups(selection: Selection) -> dict[tuple[str | int, ...], list[Case]]:
    """Returns the cells of :func:`timed_cells`, of all parts, by the groups that differ in backend only."""
    platform, profile = selection.device, selection.profile
    cases = grid(
        selection,
        lambda operator: selection.sizes or operator.sizes.of(platform, profile),
        backends_and_peers if selection.peers else backends,
    )
    chosen = [case for case in cases if selection.has(case) and (selection.dtypes or _is_timed(case, profile))]
    if profile == "quick" and not selection.operators:
        chosen = [case for case in chosen if not case.operator.sizes.quick_by_name]
    order = list(BACKENDS.values())
    variants = [each for case in chosen for each in _variants(case, profile)]
    variants.sort(key=lambda case: (*_group(case), order.index(case.backend)))
    groups: dict[tuple[str | int, ...], list[Case]] = {}
    for case in variants:
        groups.setdefault(_group(case), []).append(case)
    return groups


def _group(case: Case) -> tuple[str | int, ...]:
    return case.operator.name, case.dtype, case.size, case.cache or ""


def backends_and_peers(operator: Operator, platform: str) -> list[Backend]:
    """Returns the backends of an operator on a platform, and the libraries that compute the same."""
    own = backends(operator, platform)
    return [*own, *(each for each in BACKENDS.values() if platform in each.platforms and each in operator.peers)]


def _is_timed(case: Case, profile: str) -> bool:
    dtypes = [dtype for dtype in case.operator.dtypes if dtype in _TIMED_DTYPES] or case.operator.dtypes
    return case.dtype in (dtypes[:1] if profile == "quick" else dtypes)


def _variants(case: Case, profile: str) -> Iterator[Case]:
    """Yields the case in the states of the cache that are timed."""
    states: list[str | None] = [None]
    if case.platform != "cpu":
        hot, cold = case.size <= _HOT_UP_TO[profile], case.size >= _COLD_FROM[profile]
        states = [*(["hot"] if hot else []), *(["cold"] if cold else [])] or ["cold"]
    yield from (replace(case, cache=state) for state in states)
