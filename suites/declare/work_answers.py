"""Answers for the work of one call: bytes read, bytes written and operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from suites.declare.answer import Answer
from suites.declare.given_inputs import described
from suites.errors import OperatorError
from suites.numerics.arrays import Inputs


def total_bytes(*arrays: Any) -> int:
    """The bytes of all arrays together, from their shapes and dtypes."""
    return sum(int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize for array in arrays)


class Flops(Answer):
    """Returns the operations of a call as an int; the default is None, unknown."""

    field = "flops"

    def default(self, inputs: Inputs) -> int | None:
        """Returns what a call takes if the author declares nothing."""
        return None

    def __call__(self, *inputs: Any) -> int | None:
        if self.given is None:
            return self.default(inputs)
        found = self.given(*inputs)
        if found is None and self.field == "flops":
            return None
        is_number = isinstance(found, int | float | np.integer | np.floating) and not isinstance(found, bool)
        if not is_number or not math.isfinite(found) or found < 0:
            raise OperatorError(f"{self.where} returned {described(found)}, expected how many there are in one call.")
        return math.ceil(float(found))


class BytesRead(Flops):
    """Returns the bytes that a call reads; the default is all inputs."""

    field = "bytes_read"

    def default(self, inputs: Inputs) -> int:
        """Returns the bytes of all inputs."""
        return total_bytes(*inputs)


class BytesWritten(Flops):
    """Returns the bytes that a call writes; the default is all outputs."""

    field = "bytes_written"

    def default(self, inputs: Inputs) -> int:
        """Returns the bytes of all outputs."""
        return total_bytes(*self.operator.outputs(*inputs))
