"""Makes a call and its derivative one program, for cells that time both directions together.

The program takes the inputs, and a cotangent for each output of real floats. It returns the outputs, and the cotangents
of all inputs that have one. The cotangents of the outputs lie in arrays, as they do in a user's program, where they
come from elsewhere. If they were constants, XLA would leave the multiplications by them out of its own code, while a
kernel would have to read them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from suites.backends.backend import Backend
from suites.backends.kernel import AtLeast
from suites.cells import repeated_inputs
from suites.cells.case import Case
from suites.checks.judging.gradients import random_cotangents, true_cotangents
from suites.declare.differentiation import function_of
from suites.declare.operator import Operator
from suites.declare.work_answers import total_bytes
from suites.errors import OperatorError
from suites.numerics.arrays import Array, Inputs
from suites.numerics.error_model import Expected, Truth

MODE = "forward+backward"
"""The mode of such a cell in a record."""


def case_of_both_directions(case: Case) -> Case | None:
    """Returns the case that runs both directions of a case; None if its kernel has no derivative to time.

    A derivative that nobody declared, and that a compiler made, counts as well: it is judged like any other result.
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
        given = iter(arrays[count:])
        function, floats = function_of(lambda *some: jax.tree.leaves(call(*some)), arrays[:count], indices)
        outs, pullback = jax.vjp(function, *floats)
        cotangents = [next(given) if _is_real(out) else np.zeros(out.shape, jax.dtypes.float0) for out in outs]
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
        """Returns the least number: a derivative may be another kernel, several, or JAX's."""
        found = self.operator.calls(backend)
        return AtLeast(found, found) if isinstance(found, int) and backend.compiled else found

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
        "reference": lambda *arrays: forward_and_backward(operator, Backend.JNP, arrays[:count])(*arrays),
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


def _truth(operator: Operator, inputs: Inputs, given: Inputs) -> Truth:
    forward = operator.truth(*inputs)
    left = iter(given)
    cotangents: list[Array] = [
        next(left) if _is_real(out) else np.zeros(out.shape, jax.dtypes.float0) for out in operator.outputs(*inputs)
    ]
    backward = true_cotangents(operator, inputs, cotangents)
    return Truth((*_either_answer(forward), *backward.outputs))


def _either_answer(truth: Truth) -> tuple[Expected, ...]:
    """Returns the outputs with margins that reach the other answer where two are right: cotangents have no mask."""
    mask = truth.undecided
    if mask is None or not mask.any():
        return truth.outputs

    def wider(expected: Expected, other: Expected) -> Expected:
        with np.errstate(all="ignore"):
            apart = np.abs(other.value.astype(np.float64) - expected.value.astype(np.float64))
        margins = [0.0 if each.margin is None else each.margin for each in (expected, other)]
        return replace(expected, margin=np.where(mask, np.nan_to_num(apart) + margins[1], margins[0]))

    return tuple(wider(*pair) for pair in zip(truth.outputs, truth.alternative, strict=True))


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
    return bool(np.dtype(array.dtype).kind == "f")
