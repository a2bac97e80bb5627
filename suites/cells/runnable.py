"""Refuses a selection with unknown names, or with no cell that can run, and says why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reports.records.cell import short_dtype
from suites.backends import BACKENDS
from suites.cells import catalogue
from suites.cells.case import Case
from suites.cells.grid import backends, operators_of, why_skipped
from suites.cells.selection import Selection
from suites.declare import fields
from suites.errors import SelectionError


def require_known_names(selection: Selection) -> None:
    """Requires that every operator, backend and dtype that the selection names exists.

    Raises:
        SelectionError: One does not; the message lists the known ones.
    """
    _require_known("operator", selection.operators, catalogue.operators())
    _require_known("backend", selection.backends, [backend.id for backend in BACKENDS.values()])
    dtypes = list(dict.fromkeys(dtype for operator in operators_of(selection) for dtype in operator.dtypes))
    _require_known("dtype", selection.dtypes, [*dtypes, *map(short_dtype, dtypes)], alternatives=dtypes)


def require_runnable(selection: Selection, cases: Iterable[Case]) -> None:
    """Requires that every operator that the selection names has a kernel that can run; else that any operator has one.

    Raises:
        SelectionError: There are no cells, or none of these operators can run; the message says why.
    """
    by_operator: dict[str, list[Case]] = {}
    for case in cases:
        if case.backend is not BACKENDS["jnp"] or selection.backends:
            by_operator.setdefault(case.operator.name, []).append(case)
    if not by_operator:
        raise SelectionError(f"no cell fits {selection}. {_available(selection)}")
    idle = {name: own for name, own in by_operator.items() if all(map(why_skipped, own))}
    is_named = bool(selection.operators) and not selection.backends
    idle |= {name: [] for name in selection.operators if is_named and name not in by_operator}
    if idle and (is_named or len(idle) == len(by_operator)):
        name, own = next(iter(idle.items()))
        reasons = "; ".join(dict.fromkeys(str(why_skipped(case)) for case in own)) or "no kernel in this selection"
        raise SelectionError(f"operator {name!r} has no kernel that can run ({reasons}).")


def _available(selection: Selection) -> str:
    """Names the backends and dtypes of the first operator in a selection."""
    first, *_ = operators_of(selection)
    names = ", ".join(backend.id for backend in backends(first, selection.device))
    return f"On {selection.device}, {first.name} has the backends {names} and the dtypes {', '.join(first.dtypes)}."


def _require_known(
    option: str, selected: Sequence[str], existing: Iterable[str], alternatives: Iterable[str] | None = None
) -> None:
    names = list(existing)
    for name in selected:
        if name not in names:
            near = fields.nearest(name, alternatives or names)
            raise SelectionError(f"--{option} {name}: there is no {option} of this name.{near}")
