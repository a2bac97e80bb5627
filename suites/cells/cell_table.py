"""Defines :class:`Table`: the cells that a check runs on, and the cells that the quick profile keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from suites.backends.backend import Backend
from suites.cells.case import Case
from suites.cells.selection import Selection
from suites.declare.operator import Operator


@dataclass(frozen=True, kw_only=True)
class Table:
    """The cells of a check.

    Attributes:
        cells: Makes the pytest parameters of every cell on a platform, ``cpu`` or ``cuda``.
        at_sizes: Makes the parameters at sizes that the user names; None if the sizes of the table are fixed.
        full_only: Variants that the quick profile leaves out.
        quick_without_twins: Whether the quick profile leaves out parallel kernels that have a serial twin: the same
            code of the bridge transforms both.
    """

    cells: Callable[[str], list[Any]]
    at_sizes: Callable[[str, tuple[int, ...]], list[Any]] | None = None
    full_only: frozenset[str] = frozenset()
    quick_without_twins: bool = False

    def chosen(self, selection: Selection) -> list[Any]:
        """Returns the parameters that a selection chooses from this table."""
        if self.at_sizes is not None and selection.sizes:
            cells = self.at_sizes(selection.device, selection.sizes)
        else:
            cells = self.cells(selection.device)
        own = [cell for cell in cells if selection.has(cell.values[0])]
        return self.quick(own) if selection.profile == "quick" else own

    def quick(self, cells: Iterable[Any]) -> list[Any]:
        """Returns each kernel in its first dtype at its largest size, without the reference.

        Two cores check so many cells in four minutes; compiling takes most of the time.
        """
        others = [cell for cell in cells if cell.values[0].backend is not Backend.JNP]
        with_first_dtype = {cell.values[0].kernel for cell in others if cell.values[0].in_first_dtype}
        largest: dict[tuple[Operator, Backend], int] = {}
        for cell in others:
            case = cell.values[0]
            largest[case.kernel] = max(largest.get(case.kernel, 0), case.size)

        def is_kept(case: Case) -> bool:
            return (
                (case.in_first_dtype or case.kernel not in with_first_dtype)
                and case.size == largest[case.kernel]
                and case.variant not in self.full_only
                and not (self.quick_without_twins and _has_serial_twin(case))
            )

        return [cell for cell in others if is_kept(cell.values[0])]


def _has_serial_twin(case: Case) -> bool:
    return case.backend.serial_twin in case.operator.kernels
