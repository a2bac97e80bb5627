"""Implements ``list``: the kernels of each operator, the dtypes that are checked, and why others are skipped."""

from __future__ import annotations

from collections.abc import Iterator

from reports.records.cell import short_dtype
from reports.render.layout import Column, Row, Style, Table, Text
from suites.backends import Backend
from suites.cells.case import SEED, Case
from suites.cells.grid import backends, operators_of, why_skipped
from suites.cells.selection import Selection
from suites.declare.operator import Operator
from suites.numerics.derived import explain_truth


def listing(selection: Selection) -> Table:
    """Returns a table with a row for each operator and backend of a selection."""
    platform = selection.device
    names = ("operator", "backend", "dtypes", "derivative", "skipped")
    columns = tuple(Column(name, align="left") for name in names)
    rows = [
        _row(operator, backend, platform)
        for operator in operators_of(selection)
        for backend in backends(operator, platform)
        if not selection.backends or backend.id in selection.backends
    ]
    return Table(f"Operators on {platform}", columns, tuple(rows), tuple(_truths(selection)))


def _truths(selection: Selection) -> Iterator[str]:
    """Yields a line about the derived truth of each operator that declares none."""
    for operator in operators_of(selection):
        if operator.derives_truth:
            inputs = operator.sample(operator.dtypes[0], operator.sizes.check[0], SEED)
            note = operator.tolerance and f"tolerance {operator.tolerance:g} of the largest result, as declared"
            yield f"{operator.name}: truth from the reference, {note or explain_truth(operator.reference, inputs)}"


def _row(operator: Operator, backend: Backend, platform: str) -> Row:
    reasons: dict[str, list[str]] = {}
    for dtype in operator.dtypes:
        why = why_skipped(Case(operator, backend, dtype, 1, platform))
        reasons.setdefault(why or "", []).append(short_dtype(dtype))
    runs = reasons.pop("", [])
    derivative = any(operator.has_gradient(backend, dtype) for dtype in operator.dtypes)
    skipped = "; ".join(
        why if len(dtypes) == len(operator.dtypes) else f"{' '.join(dtypes)}: {why}" for why, dtypes in reasons.items()
    )
    texts = (operator.name, backend.id, " ".join(runs) or "none", "yes" if derivative else "no", skipped)
    style = Style.PLAIN if runs else Style.FAINT
    return tuple(Text(text, style) for text in texts)
