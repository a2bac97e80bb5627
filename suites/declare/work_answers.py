"""Answers for the work of one call: bytes read, bytes written and operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from suites.declare.answer import Answer, Declared
from suites.declare.given_inputs import described
from suites.errors import OperatorError
from suites.numerics.arrays import Inputs


def total_bytes(*arrays: Any) -> int:
    """The bytes of all arrays together, from their shapes and dtypes."""
    return sum(int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize for array in arrays)


class Work(Answer):
    """Returns a number of bytes or operations as an int."""

    default: Callable[[Declared, Inputs], int | None]

    def __call__(self, *inputs: Any) -> int | None:
        if self.given is None:
            work: int | None = type(self).default(self.operator, inputs)
            return work
        found = self.given(*inputs)
        if found is None and self.field == "flops":
            return None
        is_number = isinstance(found, int | float | np.integer | np.floating) and not isinstance(found, bool)
        if not is_number or not math.isfinite(found) or found < 0:
            raise OperatorError(f"{self.where} returned {described(found)}, expected how many there are in one call.")
        return math.ceil(float(found))


class BytesRead(Work):
    """Returns the bytes that a call reads; the default is all inputs."""

    field = "bytes_read"

    @staticmethod
    def default(operator: Declared, inputs: Inputs) -> int:
        """The bytes of all inputs."""
        return total_bytes(*inputs)


class BytesWritten(Work):
    """Returns the bytes that a call writes; the default is all outputs."""

    field = "bytes_written"

    @staticmethod
    def default(operator: Declared, inputs: Inputs) -> int:
        """The bytes of all outputs."""
        return total_bytes(*operator.outputs(*inputs))


class Flops(Work):
    """Returns the operations of a call; the default is None, unknown."""

    field = "flops"

    @staticmethod
    def default(operator: Declared, inputs: Inputs) -> None:
        """Unknown."""
