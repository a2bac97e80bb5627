"""Tells from a reference whether the signs of its zeros are those that every kernel must give.

IEEE 754 defines the sign of a zero that negation, a product, a quotient or a copy gives. It leaves open which zero is
larger, so that a maximum of both, or what comes after a comparison, may have either sign. The sign of a sum depends on
the order of its terms: ``-(y - x)`` is -0.0 where ``x - y`` is 0.0. So it counts for a single sum of two inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.numerics.arrays import Inputs
from suites.numerics.traced import operations

_DEFINED = {
    *("neg", "mul", "div", "copy", "copy_p", "convert_element_type", "stop_gradient"),
    *("reshape", "transpose", "rev", "squeeze", "expand_dims", "broadcast_in_dim", "concatenate", "slice"),
}
"""Primitives that define the sign of a zero."""


def keeps_zero_signs(reference: Callable[..., Any], inputs: Inputs) -> bool:
    """Returns whether all operations of a reference define the signs of zeros."""
    names = operations(reference, inputs)
    return names == ["add"] or set(names) <= _DEFINED
