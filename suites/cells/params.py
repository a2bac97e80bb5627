"""Operators, backends, dtypes, sizes and a device in, pytest parameters out, each with an id that reads aloud.

What cannot run stays in the list as a skip with its reason; what is known to fail, as a strict xfail with its reason.
Parameters with one kernel are adjacent, so that what it compiled is still at hand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import pytest

from reports import Cell
from reports.records.cell import short_dtype
from suites.backends.backend import Backend
from suites.cells.catalogue import operators
from suites.cells.selection import Selection, SelectionError
from suites.declare.error_case import ErrorCase
from suites.declare.limitation import Limitation
from suites.declare.operator import Operator
from suites.inputs.arrays import Inputs
from suites.judging.repetition import sample as sample_of

SEED = 20_260
"""Seed of all sample inputs."""

LAYOUTS = ("first_axis", "last_axis", "nested", "only_first_input", "only_last_input")
"""How the operands of a batch are laid out, see :mod:`suites.checks.test_vmap`."""


@dataclass(frozen=True)
class Case:
    """One cell of the matrix, with what a test needs to run it.

    Attributes:
        variant: What is special: the name of an edge case, error case or layout; None for an ordinary sample.
    """

    operator: Operator
    backend: Backend
    dtype: str
    size: int
    platform: str
    variant: str | None = None

    @property
    def cell(self) -> Cell:
        """Its identity in a record."""
        return Cell(
            operator=self.operator.name,
            operator_version=self.operator.version,
            backend=self.backend.id,
            platform=self.platform,  # type: ignore[arg-type]
            dtype=self.dtype,
            size=self.size,
        )

    @property
    def id(self) -> str:
        """Such as ``lif_step-numba-f32-4096-cpu``, or ``max-numba-f32-negative_nan-cpu``."""
        what = [str(self.size)] if self.size else []
        what += [self.variant] if self.variant else []
        return "-".join([self.operator.name, self.backend.id, short_dtype(self.dtype), *what, self.platform])

    @property
    def device(self) -> jax.Device:
        """Where it runs."""
        return jax.devices(self.platform)[0]

    def inputs(self) -> Inputs:
        """Sample inputs, or those of the edge case; they must not be modified."""
        if self.size:
            return sample(self.operator, self.dtype, self.size, SEED)
        return edges_of(self.operator, self.dtype)[str(self.variant)]

    @property
    def has_inputs(self) -> bool:
        """Whether :meth:`inputs` has what the test uses."""
        return bool(self.size) or self.variant in edges_of(self.operator, self.dtype)

    @property
    def error(self) -> ErrorCase:
        """The error case that this variant names."""
        return next(case for case in self.operator.errors if case.name == self.variant)


@functools.lru_cache(maxsize=4)
def sample(operator: Operator, dtype: str, size: int, seed: int) -> Inputs:
    """Sample inputs, made once for all backends and read-only."""
    inputs = sample_of(operator, dtype, size, seed)
    _protect(inputs)
    return inputs


def _protect(inputs: Inputs) -> None:
    for array in inputs:
        array.flags.writeable = False


@functools.lru_cache(maxsize=256)
def edges_of(operator: Operator, dtype: str) -> Mapping[str, Inputs]:
    """The edge cases of an operator, made once for all backends and read-only."""
    cases = operator.edges(dtype)
    for inputs in cases.values():
        _protect(inputs)
    return cases


def samples(platform: str) -> list[Any]:
    """Every dtype at every size for checks."""
    return samples_of(platform, ())


def samples_of(platform: str, sizes: Sequence[int]) -> list[Any]:
    """Every dtype at these sizes; without any, at every size for checks."""
    return [_param(case) for case in _grid(platform, lambda operator: tuple(sizes) or operator.sizes.check)]


def eager(platform: str) -> list[Any]:
    """Every kernel in every dtype at the last of the sizes for checks: at the others, compiled calls show as much."""
    cases = _grid(platform, lambda operator: operator.sizes.check[-1:])
    return [_param(case) for case in cases if case.backend.compiled]


def large(platform: str) -> list[Any]:
    """Every kernel in every dtype at a size that takes several threads, blocks and passes."""
    return [_param(case) for case in _grid(platform, lambda operator: (operator.sizes.large,))]


def edges(platform: str) -> list[Any]:
    """Every edge case of every dtype."""
    return [
        _param(Case(case.operator, case.backend, case.dtype, 0, platform, edge))
        for case in _grid(platform, lambda operator: (0,))
        for edge in edges_of(case.operator, case.dtype)
    ]


def batches(platform: str) -> list[Any]:
    """Every layout of every kernel in its first dtype (batching sees only shapes), at a size that is no power of two.

    Not the reference, whose batches are JAX's own.
    """
    cells = []
    for case in _grid(platform, lambda operator: (47,)):
        if not case.backend.compiled:
            continue
        if not case.operator.batchable and _in_first_dtype(case):
            cells += _cannot_exist([case], f"jax.vmap over {case.operator.name} makes no sense")
        elif case.operator.batchable and _in_first_dtype(case):
            cells += [_param(replace(case, variant=layout)) for layout in LAYOUTS]
    return cells


def errors(platform: str) -> list[Any]:
    """Every error case, for the backends that declare a failure for it."""
    return [
        _param(Case(operator, backend, str(case.inputs()[0].dtype), 0, platform, case.name))
        for operator in operators().values()
        for backend in backends(operator, platform)
        for case in operator.errors
        if backend in case.failures
    ]


def kernels(platform: str) -> list[Any]:
    """Every compiled kernel once, in its first dtype."""
    return [
        _param(Case(operator, backend, operator.dtypes[0], 33, platform))
        for operator in operators().values()
        for backend in backends(operator, platform)
        if backend.compiled and backend in operator.kernels
    ]


def sparse(platform: str) -> list[Any]:
    """The kernels of :func:`kernels` that take a sparse matrix in CSR form."""
    return [param for param in kernels(platform) if param.values[0].operator.after_csr is not None]


def drawn_batches(platform: str) -> list[Any]:
    """The kernels of :func:`kernels`, as many elements as a drawn batch has; those that cannot be batched as skips."""
    cells = []
    for param in kernels(platform):
        case = replace(param.values[0], size=5)
        if case.operator.batchable:
            cells.append(_param(case))
        else:
            cells += _cannot_exist([case], f"jax.vmap over {case.operator.name} makes no sense")
    return cells


def direct(platform: str) -> list[Any]:
    """The kernels of :func:`kernels` that are given the inputs of a call and no other arrays, by number and type."""
    return [
        param
        for param in kernels(platform)
        if param.values[0].backend.typed and param.values[0].operator.is_direct(param.values[0].backend)
    ]


def without_half(platform: str) -> list[Any]:
    """The kernels of :func:`kernels` that take floats, and whose backend has none of half precision."""
    return [
        param
        for param in kernels(platform)
        if (case := param.values[0]).backend.typed
        and case.backend.unsupported(platform, "float16")
        and case.operator.float_input(case.inputs()) is not None
    ]


def gradients(platform: str) -> list[Any]:
    """Every backend with a gradient in every dtype at every size for checks; the reference at the last of them."""
    cases = _grid(platform, _gradient_sizes)
    return _differentiable(
        case for case in cases if case.backend.compiled or case.size == _gradient_sizes(case.operator)[-1]
    )


def adjoints(platform: str) -> list[Any]:
    """Every kernel with a gradient in every dtype at one size.

    Not the reference, which is compiled one operation after the other when it is called eagerly.
    """
    cases = _grid(platform, lambda operator: _gradient_sizes(operator)[-1:])
    return _differentiable(case for case in cases if case.backend.compiled)


def _gradient_sizes(operator: Operator) -> tuple[int, ...]:
    return (operator.gradient and operator.gradient.sizes) or operator.sizes.check


def gradient_batches(platform: str) -> list[Any]:
    """Every kernel with a gradient in one dtype, at the size of :func:`batches`; not the reference, as there."""
    cases = _grid(platform, lambda operator: (47,))
    return _differentiable(case for case in cases if case.backend.compiled and _in_first_dtype(case))


def small_gradients(platform: str) -> list[Any]:
    """Every backend with a gradient for a few elements in float64, where differences of function values are of use."""
    return _differentiable(case for case in _grid(platform, lambda operator: (5,)) if case.dtype == "float64")


def without_gradient(platform: str) -> list[Any]:
    """The kernels of :func:`kernels` that have none, but whose results and one of whose inputs are floats.

    Not those for which Warp generates one that the operator does not declare.
    """
    return [
        param
        for param in kernels(platform)
        if not _has_gradient(case := param.values[0])
        and not case.operator.generates_adjoint(case.backend, case.dtype)
        and np.dtype(case.operator.outputs(*case.inputs())[0].dtype).kind == "f"
        and case.operator.float_input(case.inputs()) is not None
    ]


def repeatable(platform: str) -> list[Any]:
    """The kernels of :func:`kernels` that must give equal bits for equal inputs; the others as skips."""
    cells = []
    for param in kernels(platform):
        case = param.values[0]
        if case.operator.deterministic(case.backend, platform):
            cells.append(param)
        else:
            cells += _cannot_exist([case], "adds floats up atomically, in an order that varies")
    return cells


def speeds(selection: Selection) -> list[Any]:
    """Every cell of a timing selection; the backends of one cell follow each other.

    The quick profile times each operator in its first dtype, the full one in all that tables compare. Dtypes and sizes
    that the selection names take the place of those of the profile.
    """
    platform, profile = selection.device, selection.profile
    cases = _grid(platform, lambda operator: selection.sizes or operator.sizes.of(platform, profile))
    chosen = [case for case in cases if selection.has(case) and (selection.dtypes or _is_timed(case, profile))]
    order = list(Backend)
    return [
        _param(case)
        for case in sorted(
            chosen, key=lambda case: (case.operator.name, case.dtype, case.size, order.index(case.backend))
        )
    ]


_TIMED_DTYPES = ("float32", "float64", "int32", "int64")


def _is_timed(case: Case, profile: str) -> bool:
    dtypes = [dtype for dtype in case.operator.dtypes if dtype in _TIMED_DTYPES] or case.operator.dtypes
    return case.dtype in (dtypes[:1] if profile == "quick" else dtypes)


TABLES: dict[str, Callable[[str], list[Any]]] = {
    "sample_case": samples,
    "eager_case": eager,
    "large_case": large,
    "edge_case": edges,
    "batch_case": batches,
    "error_case": errors,
    "kernel_case": kernels,
    "threads_case": kernels,  # by a name of its own, because quick() treats it otherwise
    "sparse_case": sparse,
    "drawn_batch_case": drawn_batches,
    "direct_case": direct,
    "fullprecision_case": without_half,
    "gradient_case": gradients,
    "adjoint_case": adjoints,
    "gradient_batch_case": gradient_batches,
    "small_gradient_case": small_gradients,
    "ruleless_case": without_gradient,
    "repeatable_case": repeatable,
}
"""The parameters of a test, by the name of its argument."""


def quick(table: str, cells: Iterable[Any]) -> list[Any]:
    """Of these cells of a table, what two cores check in three minutes: most of the time goes into compilation.

    That is each kernel in its first dtype at the largest of the sizes, and of the layouts of a batch the two that
    differ most. Not the reference, nor the transformations of a parallel kernel that has a serial twin: the same code
    takes both through them.
    """
    others = [cell for cell in cells if cell.values[0].backend is not Backend.JNP]
    first = {_kernel(cell.values[0]) for cell in others if _in_first_dtype(cell.values[0])}
    largest: dict[tuple[Operator, Backend], int] = {}
    for cell in others:
        kernel = _kernel(cell.values[0])
        largest[kernel] = max(largest.get(kernel, 0), cell.values[0].size)
    return [
        cell
        for cell in others
        if (_in_first_dtype(cell.values[0]) or _kernel(cell.values[0]) not in first)
        and cell.values[0].size == largest[_kernel(cell.values[0])]
        and not (table == "batch_case" and cell.values[0].variant in _LATER_LAYOUTS)
        and not (table in _TRANSFORMED and _has_serial_twin(cell.values[0]))
    ]


_LATER_LAYOUTS = {"first_axis", "last_axis", "only_first_input"}
_TRANSFORMED = {"batch_case", "drawn_batch_case", "kernel_case"}


def _has_serial_twin(case: Case) -> bool:
    return case.backend is Backend.NUMBA_PARALLEL and Backend.NUMBA in case.operator.kernels


def _in_first_dtype(case: Case) -> bool:
    return bool(case.dtype == case.operator.dtypes[0])


def _kernel(case: Case) -> tuple[Operator, Backend]:
    return case.operator, case.backend


def checked(table: str, selection: Selection) -> list[Any]:
    """The cells of a table that a selection has. Sizes that it names take the place of those of ``sample_case``."""
    platform = selection.device
    cells = samples_of(platform, selection.sizes) if table == "sample_case" else TABLES[table](platform)
    own = [cell for cell in cells if selection.has(cell.values[0])]
    return quick(table, own) if selection.profile == "quick" else own


def require_runnable(selection: Selection, cases: Iterable[Case]) -> None:
    """Refuses a selection of which nothing would be checked or timed.

    An operator that was named must have a kernel that can run; of others, one must.

    Raises:
        SelectionError: There are no cells, or none of these operators can run; the message says why.
    """
    by_operator: dict[str, list[Case]] = {}
    for case in cases:
        if case.backend is not Backend.JNP or selection.backends:
            by_operator.setdefault(case.operator.name, []).append(case)
    if not by_operator:
        raise SelectionError(f"no cell fits {selection}. {_what_there_is(selection)}")
    idle = {name: own for name, own in by_operator.items() if all(map(why_skipped, own))}
    named = bool(selection.operators) and not selection.backends
    idle |= {name: [] for name in selection.operators if named and name not in by_operator}
    if idle and (named or len(idle) == len(by_operator)):
        name, own = next(iter(idle.items()))
        reasons = "; ".join(dict.fromkeys(str(why_skipped(case)) for case in own)) or "no kernel in this selection"
        raise SelectionError(f"operator {name!r} has no kernel that can run ({reasons}).")


@functools.cache
def by_id(selection: Selection) -> dict[str, Case]:
    """Every cell of every table by its id; equal ids are equal cells."""
    return {cell.id: cell.values[0] for table in TABLES for cell in checked(table, selection)}


def backends(operator: Operator, platform: str) -> list[Backend]:
    """The backends of a platform that have cells: the reference and those with a kernel, or those of them tested."""
    tested = operator.backends() if operator.tested is None else operator.tested
    return [backend for backend in Backend if platform in backend.platforms and backend in tested]


def _what_there_is(selection: Selection) -> str:
    """The backends that have cells of the first of the operators in a selection."""
    name, operator = next(
        (name, operator) for name, operator in operators().items() if name in (selection.operators or operators())
    )
    found = ", ".join(backend.id for backend in backends(operator, selection.device))
    return f"On {selection.device}, {name} has the backends {found} and the dtypes {', '.join(operator.dtypes)}."


def _grid(platform: str, sizes: Callable[[Operator], tuple[int, ...]]) -> Iterator[Case]:
    for operator in operators().values():
        for backend in backends(operator, platform):
            for dtype in operator.dtypes:
                for size in sizes(operator):
                    yield Case(operator, backend, dtype, size, platform)


def _differentiable(cases: Iterable[Case]) -> list[Any]:
    """The cells that have a gradient; of kernels that have none, one cell each, as a skip that says why."""
    found, others = [], []
    for case in cases:
        if _has_gradient(case) and case.operator.gradient is not None:
            found.append(_param(case, case.operator.gradient.limitations))
        else:
            others.append(case)
    kernels_found = {_kernel(param.values[0]) for param in found}
    for case in others:
        if _kernel(case) not in kernels_found and case.backend in case.operator.kernels:
            kernels_found.add(_kernel(case))
            found += _cannot_exist([case], _why_no_gradient(case))
    return found


def _why_no_gradient(case: Case) -> str:
    if case.operator.gradient is None:
        return f"no derivative is declared for {case.operator.name}"
    return f"{case.backend.id} kernels have no derivative of their own (def_vjp gives an operator one)"


def _cannot_exist(cases: Iterable[Case], reason: str) -> list[Any]:
    skip = pytest.mark.skip
    return [pytest.param(case, id=case.id, marks=skip(reason=why_skipped(case) or reason)) for case in cases]


def _has_gradient(case: Case) -> bool:
    return case.operator.has_gradient(case.backend, case.dtype)


def _param(case: Case, limitations: Sequence[Limitation] = ()) -> Any:
    return pytest.param(case, id=case.id, marks=_marks(case, limitations))


def _marks(case: Case, limitations: Sequence[Limitation]) -> list[pytest.MarkDecorator]:
    reason = why_skipped(case)
    if reason:
        return [pytest.mark.skip(reason=reason)]
    known = _known((*case.operator.limitations, *limitations), case)
    return [_must_fail(limitation) for limitation in known if not limitation.checks]


def marks_of_check(case: Case, check: str) -> list[pytest.MarkDecorator]:
    """The marks of a cell in one check, besides those of its parameter."""
    if why_skipped(case):
        return []
    known = _known(case.operator.limitations, case)
    return [_must_fail(limitation) for limitation in known if check in limitation.checks]


def _known(limitations: Sequence[Limitation], case: Case) -> list[Limitation]:
    edge = case.variant if not case.size else None
    return [limitation for limitation in limitations if limitation.applies(case.backend, case.dtype, edge)]


def _must_fail(limitation: Limitation) -> pytest.MarkDecorator:
    return pytest.mark.xfail(reason=limitation.reason, strict=True)


def why_skipped(case: Case) -> str | None:
    """Why a case cannot run here, or None if it can."""
    return case.operator.unsupported(case.backend, case.platform, case.dtype) or _absent(case.platform)


@functools.cache
def _absent(platform: str) -> str | None:
    try:
        return None if jax.devices(platform) else f"no {platform} device"
    except RuntimeError as error:
        return no_device(platform, error)


def require_device(selection: Selection) -> None:
    """Refuses a selection for whose device JAX has no platform here.

    Raises:
        SelectionError: There is none; the message says what to install.
    """
    reason = _absent(selection.device)
    if reason:
        raise SelectionError(reason)


def no_device(platform: str, error: Exception) -> str:
    """That JAX has no device of a platform, in one line."""
    cure = "the extras cuda12 and cuda13 install JAX for it" if platform == "cuda" else "choose another --device"
    return f"no {platform} device: {str(error).splitlines()[0]} ({cure})"


def input_types(inputs: Inputs) -> tuple[list[list[int]], list[str]]:
    """Shapes and dtypes for a record."""
    return [list(array.shape) for array in inputs], [np.dtype(array.dtype).name for array in inputs]
