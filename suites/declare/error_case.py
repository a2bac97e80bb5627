"""Declares inputs that an operator must refuse, and the exception that each backend must raise for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from suites.declare import fields
from suites.declare.input_arrays import inputs_of
from suites.errors import OperatorError
from suites.numerics.arrays import Inputs


@dataclass(frozen=True)
class Failure:
    """The exception that bad inputs must raise, with a regular expression for its message."""

    exception: type[Exception]
    message: str


def value_errors(
    message: str, *, in_kernels: Sequence[str] = ("numba", "numba_parallel"), in_launches: Sequence[str] = ("warp",)
) -> dict[str, Failure]:
    """Returns the failures, by backend, of inputs that kernels refuse with a ``ValueError``.

    Args:
        message: A regular expression for the message.
        in_kernels: Backends whose machine code raises it. It reaches the caller as an error of JAX.
        in_launches: Backends that raise it before the call.
    """
    native = Failure(jax.errors.JaxRuntimeError, f"ValueError: {message}")
    return dict.fromkeys(in_kernels, native) | dict.fromkeys(in_launches, Failure(ValueError, message))


@dataclass(frozen=True)
class ErrorCase:
    """Inputs that must be refused.

    Attributes:
        name: Part of the test's id.
        inputs: Makes the inputs: an array, or several.
        failures: The exception that each backend must raise, by the backend or its name. Others are not tested.
    """

    name: str
    inputs: Callable[[], Any]
    failures: Mapping[Any, Failure]

    def __post_init__(self) -> None:
        fields.name("ErrorCase: name", self.name)
        where = f"ErrorCase {self.name!r}"
        fields.function(f"{where}: inputs", self.inputs, "no arguments that makes them")
        failures = fields.by_backend(f"{where}: failures", self.failures)
        for backend, failure in failures.items():
            if not isinstance(failure, Failure):
                raise OperatorError(f"{where}: failures[{backend.id!r}] is {failure!r}, expected suites.Failure(...).")
        object.__setattr__(self, "failures", failures)

    def arrays(self) -> Inputs:
        """Returns the inputs as a tuple of NumPy arrays."""
        return inputs_of(f"ErrorCase {self.name!r}: inputs()", self.inputs())
