"""Remembers what was computed from inputs by their digest, so that the inputs themselves need not be kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import jax

from suites.checks.judging.bits import fingerprint
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs
from suites.numerics.error_model import Truth

T = TypeVar("T")


class Remembered(Generic[T]):
    """The latest results of a function of an operator and its inputs.

    Args:
        compute: The function. JAX's switch for 64 bits may change its results.
        most: How many results are kept.
    """

    def __init__(self, compute: Callable[[Operator, Inputs], T], most: int):
        self._compute = compute
        self._most = most
        self._known: OrderedDict[Hashable, T] = OrderedDict()

    def __call__(self, operator: Operator, inputs: Inputs) -> T:
        """Returns the result, which is computed only if it is not known.

        Raises:
            Exception: The function fails; that is not remembered.
        """
        key = operator, fingerprint(inputs), jax.dtypes.canonicalize_dtype("float64").name
        if key not in self._known:
            self._known[key] = self._compute(operator, inputs)
        self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return self._known[key]


truth: Remembered[Truth] = Remembered(lambda operator, inputs: operator.truth(*inputs), most=2)
"""The truth of an operator for inputs. All backends of a cell have the same; for large inputs it takes seconds."""
