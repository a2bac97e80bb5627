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
from reports.record import short_dtype
from suites.backends import Backend
from suites.catalogue import operators
from suites.operator import ErrorCase, Inputs, Limitation, Operator
from suites.repetition import REPEATED_ABOVE
from suites.repetition import sample as sample_of

SEED = 20_260
"""Seed of all sample inputs."""

LAYOUTS = ("first_axis", "last_axis", "nested", "only_first_input", "only_last_input")
"""How the operands of a batch are laid out, see :mod:`suites.test_vmap`."""


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
    return [_param(case) for case in _grid(platform, lambda operator: operator.sizes.check)]


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


def speeds(platform: str, profile: str) -> list[Any]:
    """Every cell of a timing profile (``quick`` or ``full``); the backends of one cell follow each other."""
    cases = _grid(platform, lambda operator: operator.sizes.of(platform, profile))
    dtypes = {"quick": ("float32", "float64"), "full": ("float32", "float64", "int32", "int64")}[profile]
    chosen = [case for case in cases if case.dtype in dtypes]
    if platform == "cuda" and profile == "quick":
        # Seconds each, for inputs and truth: one dtype shows what memory allows.
        chosen = [case for case in chosen if case.size < REPEATED_ABOVE or case.dtype == "float32"]
    order = list(Backend)
    return [
        _param(case)
        for case in sorted(
            chosen, key=lambda case: (case.operator.name, case.dtype, case.size, order.index(case.backend))
        )
    ]


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


def chosen(cells: Iterable[Any], operators: Sequence[str], backends: Sequence[str]) -> list[Any]:
    """Of these cells, those of the named operators and backends; no names mean all."""
    return [
        cell
        for cell in cells
        if (not operators or cell.values[0].operator.name in operators)
        and (not backends or cell.values[0].backend.id in backends)
    ]


@functools.cache
def by_id(platform: str) -> dict[str, Case]:
    """Every cell of every table by its id; equal ids are equal cells."""
    return {cell.id: cell.values[0] for table in TABLES.values() for cell in table(platform)}


def backends(operator: Operator, platform: str) -> list[Backend]:
    """The backends of a platform that have cells: the reference and those with a kernel, or those of them tested."""
    tested = operator.backends() if operator.tested is None else operator.tested
    return [backend for backend in Backend if platform in backend.platforms and backend in tested]


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
        return f"no {platform} device: {str(error).splitlines()[0]}"


def input_types(inputs: Inputs) -> tuple[list[list[int]], list[str]]:
    """Shapes and dtypes for a record."""
    return [list(array.shape) for array in inputs], [np.dtype(array.dtype).name for array in inputs]
