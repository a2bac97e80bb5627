"""Draws inputs that break careless kernels: named patterns of values or orders, within the domains of an operator.

A program is compiled once for a shape, and a further run costs next to nothing. So a kernel is tried on about fifty
patterns, first on all inputs together, then on each input alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from suites.checks.drawn.code_constants import around, constants, whole_constants
from suites.checks.drawn.value_patterns import (
    PATTERNS_AT_POLES,
    SPECIAL,
    amounts,
    ends,
    pattern_names,
    patterned,
    within,
)
from suites.declare.input_arrays import input_names
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs, kind_of

CONSTANTS = "constants"
"""The pattern of the numbers in the reference and in the kernels, with their neighbours."""

ALONE = {
    *("zeros", "minus zeros", "both zeros", "sevens", "zero to ten", "hundreds", "magnitudes", "large", "small"),
    *("special", "subnormal", "one hot", "upper half", "full range", "mixed", "shifts", CONSTANTS),
}
"""The patterns that an input also gets by itself, while the others keep their samples."""

BESIDE = {"halves": 1, "least": -1}
"""Patterns that an input also gets while all other inputs are this number: a quotient by it is a tie, or overflows."""


def battery(
    operator: Operator, dtype: str, size: int, seeds: Sequence[int], *, smooth: bool = False
) -> Iterator[tuple[str, Inputs]]:
    """Yields inputs in the shapes of a sample, each different from the others, after the name of their pattern.

    A name is such as ``zeros``, or ``zeros in x`` for one input alone.

    Args:
        operator: The operator.
        dtype: The dtype of the sample.
        size: Its nominal size.
        seeds: Decide the random numbers of the patterns, and the sample.
        smooth: Whether to use only finite numbers of moderate size, at which derivatives are judged.
    """
    seen, sample = set(), operator.sample(dtype, size, seeds[0])
    names = input_names(operator.reference, len(sample))
    for number, (label, chosen) in enumerate(_choices(operator, sample, names, smooth)):
        inputs = filled(operator, sample, chosen, np.random.default_rng([*seeds, number]))
        key = tuple(array.tobytes() for array in inputs)
        if key not in seen:
            seen.add(key)
            yield label, inputs


SHORTEST_PART = 1024
"""Large inputs are cut into parts of this many elements, or more."""


def needles(operator: Operator, sample: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Yields large samples of zeros with two other elements, 1 and -1, at indices beside powers of two.

    Kernels cut large inputs there, or at the numbers in their code, which are tried too.
    """
    size = max(array.size for array in sample)
    cuts = {2**power for power in range(size.bit_length())} | set(whole_constants(operator))
    positions = sorted({end + step for end in cuts if end >= SHORTEST_PART for step in (-1, 0, 1) if end + step < size})
    for one, other in zip(positions, [*positions[1:], *positions[:1]], strict=True):
        values = np.zeros(size)
        values[[one, other]] = 1, -1
        large = [values if array.size > SHORTEST_PART and array.dtype.kind != "b" else None for array in sample]
        yield f"needles at {one} and {other}", filled(operator, sample, large, np.random.default_rng(0))


def is_parameter(array: Array, inputs: Inputs) -> bool:
    """Whether an input has a single element and another has several, such as a threshold or a time constant."""
    return array.size == 1 and any(other.size > 1 for other in inputs)


def whole_numbers(operator: Operator, inputs: Inputs, seed: int = 0) -> Inputs:
    """Returns integers in place of floats. Their sums are exact, so the result shows any term that a kernel omits."""
    names = ["whole" if kind_of(array.dtype) == "f" and not is_parameter(array, inputs) else None for array in inputs]
    return filled(operator, inputs, names, np.random.default_rng(seed))


def filled(operator: Operator, sample: Inputs, names: Sequence[Any], random: np.random.Generator) -> Inputs:
    """Returns the sample with patterns in the inputs that have a name in ``names``, fitted to their domains.

    A vector in place of a name holds the values of the input, and is repeated.
    """
    arrays = []
    for index, (array, name) in enumerate(zip(sample, names, strict=True)):
        if name is None:
            arrays.append(array)
            continue
        if isinstance(name, str) and name == CONSTANTS:
            name = around(constants(operator), array.dtype)
            name = random.permutation(name) if name.size else array
        drawn = patterned(name, array, random)
        arrays.append(operator.domain_of(index).fitted(drawn, array, sample))
    return tuple(arrays)


def _choices(operator: Operator, sample: Inputs, names: Sequence[str], smooth: bool) -> Iterator[tuple[str, list[Any]]]:
    """Yields labels, each with a pattern for each input; parameters keep their samples unless they are alone."""
    more = (CONSTANTS,) if constants(operator) and not smooth else ()
    own = [
        tuple(name for name in pattern_names(array.dtype) if not (smooth and name in PATTERNS_AT_POLES))
        + (more if kind_of(array.dtype) in "iuf" else ())
        for array in sample
    ]
    leading = [index for index, array in enumerate(sample) if not is_parameter(array, sample)]
    for name in dict.fromkeys(name for index in leading for name in own[index]):
        chosen: list[Any] = [
            (name if name in own[index] else own[index][len(name) % len(own[index])]) if index in leading else None
            for index in range(len(sample))
        ]
        yield name, chosen
    for index in range(len(sample)) if len(sample) > 1 else ():
        for name in own[index]:
            if name in ALONE:
                yield f"{name} in {names[index]}", [name if other == index else None for other in range(len(sample))]
            if name in BESIDE:
                others = [np.array([BESIDE[name]])] * len(sample)
                yield f"{name} in {names[index]} beside {BESIDE[name]}", [*others[:index], name, *others[index + 1 :]]
    for index, array in enumerate(sample):
        for value in _in_turn(array.dtype, sample) if array.size == 1 and not smooth else ():
            yield (
                f"{value.item()} in {names[index]}",
                [value if other == index else None for other in range(len(sample))],
            )


def _in_turn(dtype: np.dtype[Any], sample: Inputs) -> Iterator[Array]:
    """Yields the values that an input of one element gets, one after the other: a pattern would give it only one."""
    if dtype.kind not in "iu":
        values = np.array([] if dtype.kind in "bc" else SPECIAL)
    else:
        lengths = {extent for array in sample for extent in array.shape if extent > 1}
        beside = [step + sign * extent for extent in sorted(lengths) for sign in (-1, 1) for step in (-1, 0, 1)]
        values = np.array([*within(dtype, beside), *within(dtype, amounts(dtype)), *ends(dtype)], dtype)
    yield from values.reshape(-1, 1)
