"""Guesses the domain of an integer input from the author's samples, where the author declares none.

A kernel that is given an index beyond an array reads foreign memory, and no kernel checks that. So integers that look
like indices in every sample are taken for indices. All other values of the dtype are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suites.declare.domain import Domain
from suites.numerics.arrays import Inputs

SEEDS = (0, 1, 2)
"""Seeds of the samples that a guess is made from."""


@dataclass(frozen=True)
class AfterLargest:
    """Returns one more than the largest value of an input: a ``below`` of a domain."""

    index: int

    def __call__(self, *inputs: Any) -> int:
        return int(inputs[self.index].max(initial=0)) + 1


def guessed(
    index: int, sample: Callable[[str, int, int], Inputs], outputs: Callable[..., Any], dtype: str, sizes: Sequence[int]
) -> Domain:
    """Returns the domain that samples suggest for an input.

    Integers that are never negative, and less than the longest axis of the call, are indices: up to the largest of the
    sample. They are fixed if they are ascending, as row pointers are, or equal for every seed, as parameters are.
    """
    by_size = [[sample(dtype, size, seed) for seed in SEEDS] for size in sizes]
    calls = [inputs for several in by_size for inputs in several]
    values = [inputs[index] for inputs in calls]
    if values[0].dtype.kind not in "iu":
        return Domain()
    if all(np.array_equal(each[index], several[0][index]) for several in by_size for each in several):
        return Domain(fixed=True)
    if any(each.min(initial=0) < 0 for each in values):
        return Domain()
    if all((np.diff(each, axis=-1) >= 0).all() for each in values) and any(each.size > 4 for each in values):
        return Domain(fixed=True)
    longest = [max(max(array.shape, default=0) for array in (*inputs, *outputs(*inputs))) for inputs in calls]
    are_indices = all(each.max(initial=0) < most for each, most in zip(values, longest, strict=True))
    return Domain(below=AfterLargest(index)) if are_indices else Domain()
