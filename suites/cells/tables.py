"""Defines :class:`CellTable`, the cells that a check runs on, and holds the tables of all checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from suites.backends import BACKENDS
from suites.cells.case import Case, edges_of
from suites.cells.grid import as_parameter, backends, grid, operators_of, why_skipped
from suites.cells.selection import Selection
from suites.declare.differentiation import why_no_gradient, why_no_tangents
from suites.declare.operator import Operator
from suites.kernels.kernel import Kernel

SMALL_SIZE = 33
"""Elements of a small call."""

BATCHED_SIZE = 47
"""Elements of one batch element: no power of two."""

LAYOUTS = ("first_axis", "last_axis", "nested", "only_first_input", "only_last_input")
"""How the operands of a batch are laid out, see :mod:`suites.checks.test_batches`."""

QUICK_LAYOUTS = ("nested", "only_last_input")
"""The two layouts that differ most."""


@dataclass(frozen=True, kw_only=True)
class CellTable:
    """The cells of a check.

    Attributes:
        cells: Makes the pytest parameters of every cell of the operators and on the device of a selection.
        full_only: Variants that the quick profile leaves out.
        quick_dtypes: Dtypes that the quick profile takes besides the first one.
        quick_without_twins: Whether the quick profile leaves out parallel kernels that have a serial twin: the same
            code of the bridge transforms both.
    """

    cells: Callable[[Selection], list[Any]]
    full_only: frozenset[str] = frozenset()
    quick_dtypes: tuple[str, ...] = ()
    quick_without_twins: bool = False

    def chosen(self, selection: Selection) -> list[Any]:
        """Returns the parameters that a selection chooses from this table."""
        own = [cell for cell in self.cells(selection) if selection.has(cell.values[0])]
        return self.quick(own) if selection.profile == "quick" else own

    def quick(self, cells: Iterable[Any]) -> list[Any]:
        """Returns each kernel in its first dtype and the quick ones at its largest size, without the reference.

        Two cores check these cells in four minutes; compiling takes most of the time.
        """
        others = [cell for cell in cells if cell.values[0].backend is not BACKENDS["jnp"]]
        cases = [cell.values[0] for cell in others]
        with_first_dtype = {case.kernel for case in cases if case.in_first_dtype}
        largest = {case.kernel: case.size for case in sorted(cases, key=lambda case: case.size)}

        def is_quick(case: Case) -> bool:
            return (
                (case.in_first_dtype or case.dtype in self.quick_dtypes or case.kernel not in with_first_dtype)
                and case.size == largest[case.kernel]
                and case.variant not in self.full_only
                and not (self.quick_without_twins and case.backend.serial_twin in case.operator.kernels)
            )

        return [cell for cell in others if is_quick(cell.values[0])]


def samples(selection: Selection) -> list[Any]:
    """Returns every dtype at the sizes of ``--size``, else at those for checks; the reference only at the last size."""
    return [
        as_parameter(case)
        for case in grid(selection, lambda operator: selection.sizes or operator.sizes.check)
        if case.backend.compiled or case.size == (selection.sizes or case.operator.sizes.check)[-1]
    ]


def in_every_dtype(selection: Selection, size: Callable[[Operator], int]) -> list[Any]:
    """Returns every compiled kernel in every dtype, at the size that ``size`` returns for its operator."""
    cases = grid(selection, lambda operator: (size(operator),))
    return [as_parameter(case) for case in cases if case.backend.compiled]


def edge_cases(selection: Selection) -> list[Any]:
    """Returns every edge case of every dtype, for kernels."""
    return [
        as_parameter(replace(case, variant=edge))
        for case in grid(selection, lambda operator: (0,))
        if case.backend.compiled
        for edge in edges_of(case.operator, case.dtype)
    ]


def error_cases(selection: Selection) -> list[Any]:
    """Returns every error case, for the backends that declare a failure for it."""
    return [
        as_parameter(Case(operator, backend, str(case.arrays()[0].dtype), 0, selection.device, case.name))
        for operator in operators_of(selection)
        for backend in backends(operator, selection.device)
        for case in operator.errors
        if backend in case.failures
    ]


def in_first_dtype(selection: Selection, size: int = SMALL_SIZE) -> list[Case]:
    """Returns every compiled kernel once, in its first dtype."""
    cases = grid(selection, lambda operator: (size,))
    return [case for case in cases if case.in_first_dtype and case.backend.compiled]


def kernels(selection: Selection) -> list[Any]:
    """Returns every compiled kernel once, in its first dtype, with few elements."""
    return list(map(as_parameter, in_first_dtype(selection)))


def checkable_kernels(selection: Selection) -> list[Any]:
    """Returns the cells of :func:`kernels` whose language can check indices while a kernel runs."""

    def can_check(kernel: Kernel) -> bool:
        return type(kernel).with_bounds_checks is not Kernel.with_bounds_checks

    return [as_parameter(case) for case in in_first_dtype(selection) if can_check(case.operator.kernel(case.backend))]


def batches(selection: Selection) -> list[Any]:
    """Returns every layout of every kernel in its first dtype: batching sees only shapes.

    The reference is left out, because JAX batches it by itself. A backend whose calls cannot be batched has one skip.
    """
    cases = [case for case in grid(selection, lambda operator: (BATCHED_SIZE,)) if case.in_first_dtype]
    return [
        *(as_parameter(replace(case, variant=layout)) for case in cases if case.backend.compiled for layout in LAYOUTS),
        *(
            as_parameter(replace(case, variant=QUICK_LAYOUTS[0]), case.backend.no_batches)
            for case in cases
            if case.backend.no_batches
        ),
    ]


def in_place(selection: Selection) -> list[Any]:
    """Returns every kernel that updates inputs in place, in its first dtype."""

    def aliases(case: Case) -> bool:
        inputs = case.inputs()
        try:
            return bool(case.operator.kernel(case.backend).aliases(inputs, case.operator.outputs(*inputs)))
        except Exception:  # from the author's launch options; every check that calls the kernel reports it
            return False

    return [as_parameter(case) for case in in_first_dtype(selection) if not why_skipped(case) and aliases(case)]


def gradients(selection: Selection) -> list[Any]:
    """Returns every kernel with a gradient in every dtype at every size for checks."""
    return _differentiable(grid(selection, _sizes), why_no_gradient)


def small_gradients(selection: Selection) -> list[Any]:
    """Returns every backend with a gradient in float64 for 5 elements, few enough for differences of results."""
    own = (case for case in grid(selection, lambda operator: (5,)) if case.dtype == "float64")
    return _differentiable(own, why_no_gradient, with_reference=True)


def tangents(selection: Selection) -> list[Any]:
    """Returns every kernel with a derivative in forward mode, in every dtype at the last size."""
    return _differentiable(grid(selection, lambda operator: _sizes(operator)[-1:]), why_no_tangents)


def _sizes(operator: Operator) -> tuple[int, ...]:
    return (operator.gradient and operator.gradient.sizes) or operator.sizes.check


def _differentiable(
    cases: Iterable[Case], why_not: Callable[..., str | None], *, with_reference: bool = False
) -> list[Any]:
    """Returns the cases with a derivative, and one skip with a reason for each kernel that has none."""
    cells: list[Any] = []
    skips: dict[Any, Any] = {}
    for case in cases:
        reason = why_not(case.operator, case.backend, case.dtype)
        if reason is None and (with_reference or case.backend.compiled):
            cells.append(as_parameter(case))
        elif reason is not None and case.backend in case.operator.kernels:
            skips.setdefault(case.kernel, as_parameter(case, reason))
    with_derivative = {cell.values[0].kernel for cell in cells}
    return [*cells, *(skip for kernel, skip in skips.items() if kernel not in with_derivative)]


SAMPLES = CellTable(cells=samples, quick_dtypes=("bfloat16",))
LARGE_SAMPLES = CellTable(cells=lambda selection: in_every_dtype(selection, lambda operator: operator.sizes.large))
EDGE_CASES = CellTable(cells=edge_cases)
ERROR_CASES = CellTable(cells=error_cases)
KERNELS = CellTable(cells=kernels)
KERNELS_IN_EVERY_DTYPE = CellTable(
    cells=lambda selection: in_every_dtype(selection, lambda operator: SMALL_SIZE), quick_without_twins=True
)
TRANSFORMED_KERNELS = CellTable(cells=kernels, quick_without_twins=True)
EXPORTED_KERNELS = CellTable(
    cells=lambda selection: [as_parameter(case, case.backend.no_export) for case in in_first_dtype(selection)],
    quick_without_twins=True,
)
CHECKABLE_KERNELS = CellTable(cells=checkable_kernels, quick_without_twins=True)
BATCHES = CellTable(cells=batches, full_only=frozenset(LAYOUTS) - frozenset(QUICK_LAYOUTS), quick_without_twins=True)
IN_PLACE = CellTable(cells=in_place)
GRADIENTS = CellTable(cells=gradients)
BATCHED_GRADIENTS = CellTable(
    cells=lambda selection: _differentiable(in_first_dtype(selection, BATCHED_SIZE), why_no_gradient)
)
SMALL_GRADIENTS = CellTable(cells=small_gradients)
DRAWN_GRADIENTS = CellTable(cells=lambda selection: _differentiable(in_first_dtype(selection), why_no_gradient))
TANGENTS = CellTable(cells=tangents)
