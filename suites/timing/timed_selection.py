"""Lists the cells that a benchmark times: a call, or a call and its derivative in one program.

The program of both takes the inputs, and a cotangent for each output of real floats. The cotangents are arrays, as in a
user's program. If they were constants, XLA would leave out the multiplications by them in its own code, while a kernel
would have to read them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from suites.backends import BACKENDS, Backend
from suites.cells import repeated_inputs
from suites.cells.case import Case
from suites.cells.grid import backends, grid, peers
from suites.cells.parts import share
from suites.cells.selection import Selection
from suites.checks.judging.gradients import random_cotangents, true_cotangents
from suites.declare.differentiation import function_of
from suites.declare.operator import Operator
from suites.errors import OperatorError
from suites.kernels.kernel import AtLeast
from suites.numerics.arrays import Array, Inputs, kind_of, total_bytes
from suites.numerics.error_model import Truth

MODE = "forward+backward"
"""The mode of such a cell in a record."""


def case_of_both_directions(case: Case) -> Case | None:
    """Returns the case that runs both directions of a case; None if its kernel has no derivative to time.

    A derivative that a compiler made, and nobody declared, is also timed: it is judged like any other result.
    """
    if not case.has_gradient or case.size > repeated_inputs.REPEATED_ABOVE:  # truth would take minutes
        return None
    return replace(case, operator=both_directions(case.operator), mode=MODE)


def forward_and_backward(operator: Operator, backend: Backend, inputs: Sequence[Any]) -> Callable[..., list[jax.Array]]:
    """Returns a function of the inputs and the cotangents of the outputs of real floats.

    It returns the outputs, then the cotangents of the differentiated inputs.

    Args:
        operator: The operator.
        backend: A backend that has a gradient in this dtype (:meth:`suites.Operator.has_gradient`).
        inputs: Arrays or specs, with the shapes and dtypes of the inputs of a call.

    Raises:
        OperatorError: No input has a derivative.
    """
    call = operator.build(backend, inputs)
    indices, count = _differentiated(operator, inputs), len(inputs)

    def both(*arrays: jax.Array) -> list[jax.Array]:
        left = iter(arrays[count:])
        function, floats = function_of(lambda *some: jax.tree.leaves(call(*some)), arrays[:count], indices)
        outs, pullback = jax.vjp(function, *floats)
        cotangents = [next(left) if _is_real(out) else np.zeros(out.shape, jax.dtypes.float0) for out in outs]
        return [*outs, *pullback(cotangents)]

    return both


class BothDirections(Operator):
    """An operator that runs both directions of another one. Checks judge it, and timing times it, as any operator.

    Its inputs are the inputs and random cotangents, see :func:`forward_and_backward`. Make it with
    :func:`both_directions`.

    Attributes:
        operator: The other operator.
    """

    operator: Operator

    def build(self, backend: Backend, inputs: Any) -> Callable[..., Any]:
        """Returns a callable for both directions."""
        return forward_and_backward(self.operator, backend, inputs[: _count(self.operator)])

    def calls(self, backend: Backend) -> int | AtLeast:
        """Returns the least number of calls: a derivative may be another kernel, several kernels, or code of JAX."""
        count = self.operator.calls(backend)
        return AtLeast(count, count) if isinstance(count, int) and backend.compiled else count

    def deterministic(self, backend: Backend, platform: str) -> bool:
        """Tells whether equal inputs give equal bits. On a GPU adjoints add to cotangents by atomic operations."""
        return platform == "cpu" and self.operator.deterministic(backend, platform)


@functools.lru_cache(maxsize=256)
def both_directions(operator: Operator) -> BothDirections:
    """Returns the operator that runs both directions; always the same one, so that its programs are compiled once.

    Both directions together must read inputs and cotangents once, and write outputs and cotangents. The number of their
    operations is unknown.

    Args:
        operator: An operator that has a gradient.

    Raises:
        OperatorError: It declares no derivative.
    """
    if operator.gradient is None:
        raise OperatorError(_without_derivative(operator))
    count = _count(operator)

    def bytes_read(*arrays: Any) -> int:
        return operator.bytes_read(*arrays[:count]) + total_bytes(*arrays[count:])

    def bytes_written(*arrays: Any) -> int:
        return operator.bytes_written(*arrays[:count]) + total_bytes(*_cotangent_types(operator, arrays[:count]))

    changed: dict[str, Any] = {
        "operator": operator,
        "reference": lambda *arrays: forward_and_backward(operator, BACKENDS["jnp"], arrays[:count])(*arrays),
        "sample": lambda dtype, size, seed: _sample(operator, dtype, size, seed),
        "outputs": lambda *arrays: [*operator.outputs(*arrays[:count]), *_cotangent_types(operator, arrays[:count])],
        "truth": lambda *arrays: _truth(operator, arrays[:count], arrays[count:]),
        "bytes_read": bytes_read,
        "bytes_written": bytes_written,
        "flops": lambda *arrays: None,
        "elementwise": False,  # the cotangent of a scalar is a sum over all elements
        "gradient": None,
        "domains": {},
        "edges": lambda dtype: {},
        "errors": (),
    }
    both = object.__new__(BothDirections)
    for name, value in (vars(operator) | changed).items():
        object.__setattr__(both, name, value)
    return both


def _sample(operator: Operator, dtype: str, size: int, seed: int) -> Inputs:
    inputs = operator.sample(dtype, size, seed)
    cotangents = random_cotangents(operator, inputs, seed)
    return (*inputs, *(each for each in cotangents if _is_real(each)))


def _truth(operator: Operator, inputs: Inputs, cotangent_inputs: Inputs) -> Truth:
    forward = operator.truth(*inputs)
    left = iter(cotangent_inputs)
    cotangents: list[Array] = [
        next(left) if _is_real(out) else np.zeros(out.shape, jax.dtypes.float0) for out in operator.outputs(*inputs)
    ]
    backward = true_cotangents(operator, inputs, cotangents)
    return Truth((*forward.outputs, *backward.outputs))


@functools.lru_cache(maxsize=256)
def _count(operator: Operator) -> int:
    """The number of inputs, which is the same in all dtypes and sizes."""
    return len(operator.sample(operator.dtypes[0], operator.sizes.check[0], 0))


def _cotangent_types(operator: Operator, inputs: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    arrays = [inputs[index] for index in _differentiated(operator, inputs)]
    return [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]


def _differentiated(operator: Operator, inputs: Sequence[Any]) -> list[int]:
    indices = operator.differentiated(inputs)
    if not indices:
        raise OperatorError(_without_derivative(operator))
    return indices


def _without_derivative(operator: Operator) -> str:
    return (
        f"{operator.name}: cannot run backward, because no input has a derivative. Declare gradient=suites.Gradient(), "
        "or time forward alone."
    )


def _is_real(array: Any) -> bool:
    return kind_of(array.dtype) == "f"


MODES = ("forward", "forward+backward")
"""The results of a timed call: the outputs, or the outputs and the derivatives."""

_TIMED_DTYPES = ("float32", "float64", "bfloat16", "int32", "int64")

_HOT_UP_TO = {"quick": 1 << 16, "full": 1 << 22}
"""Nominal size up to which a GPU times a cell with its data in the cache, by profile."""

_COLD_FROM = {"quick": 1 << 17, "full": 1}
"""Nominal size from which a GPU times a cell with its data in memory, by profile."""


def timed_cells(selection: Selection) -> list[Case]:
    """Returns every cell to time; the cells that differ in backend only follow each other.

    The quick profile times operators in their first dtype; of operators that resemble each other it times one, unless
    the selection names operators. The full profile times all, in all dtypes that tables compare, also with derivatives.
    Dtypes, sizes and modes that the selection names replace the profile's. If the selection asks for peers, functions
    of other libraries are cells too; they have no derivatives. A part of the run never splits a group of backends.
    """
    groups = timed_groups(selection)
    own = share({group: len(cases) for group, cases in groups.items()}, selection.part)
    return [case for group, cases in groups.items() if group in own for case in cases]


def timed_groups(selection: Selection) -> dict[tuple[str | int, ...], list[Case]]:
    """Returns the cells of :func:`timed_cells`, of all parts, by the groups that differ in backend only."""
    platform, profile = selection.device, selection.profile
    cases = grid(
        platform,
        lambda operator: selection.sizes or operator.sizes.of(platform, profile),
        backends_and_peers if selection.peers else backends,
    )
    chosen = [case for case in cases if selection.has(case) and (selection.dtypes or _is_timed(case, profile))]
    if profile == "quick" and not selection.operators:
        chosen = [case for case in chosen if not case.operator.sizes.quick_by_name]
    order = list(BACKENDS.values())
    chosen.sort(key=lambda case: (case.operator.name, case.dtype, case.size, order.index(case.backend)))
    variants = [each for case in chosen for each in _variants(case, selection)]
    variants.sort(key=lambda case: (case.operator.name, case.dtype, case.size, case.mode, case.cache or ""))
    groups: dict[tuple[str | int, ...], list[Case]] = {}
    for case in variants:
        group = (case.operator.name, case.dtype, case.size, case.mode, case.cache or "")
        groups.setdefault(group, []).append(case)
    return groups


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
