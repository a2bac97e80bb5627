"""Requires that the limitations of operators name checks that exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from suites.cells.catalogue import CatalogueError
from suites.checks.register import checks
from suites.declare.operator import Operator


def require_known_checks(operators: Iterable[Operator]) -> None:
    """Requires that the limitations of these operators name only registered checks.

    Raises:
        CatalogueError: A check is not registered; the message lists the known ones.
    """
    known = [check.name for check in checks()]
    for operator in operators:
        gradient = operator.gradient
        for limitation in (*operator.limitations, *(gradient.limitations if gradient else ())):
            for name in limitation.checks:
                if name not in known:
                    near = difflib.get_close_matches(str(name), known, 1)
                    hint = f" Did you mean {near[0]!r}?" if near else ""
                    raise CatalogueError(
                        f"{operator.name}: Limitation: checks: there is no check {name!r}.{hint} "
                        f"Known are {', '.join(known)}."
                    )
