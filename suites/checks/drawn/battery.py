"""Draws the battery of an operator: many inputs of one shape, each with a named pattern, all within their domains.

A program is compiled once for a shape, and running it costs next to nothing. So a kernel is tried on about fifty
patterns, first on all inputs together, then on each input alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from suites.checks.drawn.patterns import pattern_names, patterned, smooth_names
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs

ALONE = {
    *("zeros", "minus zeros", "both zeros", "sevens", "zero to ten", "hundreds", "magnitudes", "large", "small"),
    *("special", "subnormal", "one hot", "upper half", "full range", "mixed"),
}
"""The patterns that an input also gets by itself, while the others keep their samples."""


@dataclass(frozen=True)
class Drawn:
    """Inputs with the name of their pattern, such as ``zeros``, or ``zeros in x`` for one input alone."""

    name: str
    inputs: Inputs


def battery(operator: Operator, sample: Inputs, seeds: Sequence[int], names: Sequence[str]) -> Iterator[Drawn]:
    """Yields inputs in the shapes of a sample, each different from the others.

    Args:
        operator: The operator.
        sample: A sample of it.
        seeds: What the patterns leave open follows from these.
        names: The names of the inputs.
    """
    return _battery(operator, sample, seeds, names, pattern_names)


def smooth_battery(operator: Operator, sample: Inputs, seeds: Sequence[int], names: Sequence[str]) -> Iterator[Drawn]:
    """Yields the part of :func:`battery` at which derivatives are judged: finite numbers of moderate size."""
    return _battery(operator, sample, seeds, names, smooth_names)


def is_parameter(array: Array, inputs: Inputs) -> bool:
    """Whether an input has a single element and another has several, such as a threshold or a time constant."""
    return array.size == 1 and any(other.size > 1 for other in inputs)


def filled(operator: Operator, sample: Inputs, names: Sequence[str | None], random: np.random.Generator) -> Inputs:
    """Returns the sample with patterns in the inputs that have a name in ``names``, fitted to their domains."""
    found = []
    for index, (array, name) in enumerate(zip(sample, names, strict=True)):
        if name is None:
            found.append(array)
        else:
            found.append(operator.domain_of(index).fitted(patterned(name, array, random), array, sample))
    return tuple(found)


def _battery(
    operator: Operator,
    sample: Inputs,
    seeds: Sequence[int],
    names: Sequence[str],
    patterns: Callable[[np.dtype[np.generic]], tuple[str, ...]],
) -> Iterator[Drawn]:
    seen = set()
    for place, (label, chosen) in enumerate(_choices(sample, names, patterns)):
        inputs = filled(operator, sample, chosen, np.random.default_rng([*seeds, place]))
        key = tuple(array.tobytes() for array in inputs)
        if key not in seen:
            seen.add(key)
            yield Drawn(label, inputs)


def _choices(
    sample: Inputs, names: Sequence[str], patterns: Callable[[np.dtype[np.generic]], tuple[str, ...]]
) -> Iterator[tuple[str, list[str | None]]]:
    """Yields labels, each with a pattern for each input; parameters keep their samples unless they are alone."""
    own = [patterns(array.dtype) for array in sample]
    leading = [index for index, array in enumerate(sample) if not is_parameter(array, sample)]
    for name in dict.fromkeys(name for index in leading for name in own[index]):
        chosen: list[str | None] = [
            (name if name in own[index] else own[index][len(name) % len(own[index])]) if index in leading else None
            for index in range(len(sample))
        ]
        yield name, chosen
    if len(sample) == 1:
        return
    for index in range(len(sample)):
        for name in own[index]:
            if name in ALONE:
                yield f"{name} in {names[index]}", [name if other == index else None for other in range(len(sample))]
