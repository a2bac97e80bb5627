"""Answers for an operator's inputs: its samples and its edge cases, with defaults for authors who declare none."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from suites.declare import fields
from suites.declare.answer import Answer, Given
from suites.declare.given_inputs import described, inputs_of, inputs_of_dtype
from suites.declare.shapes import InputShape, example, sample_of, shapes_of
from suites.errors import OperatorError
from suites.numerics.arrays import Array, Inputs
from suites.numerics.edges import values, vectors
from suites.numerics.precision import precision

SPECIAL = ("empty", "one", "nan", "both_infs", "minus_zero", "subnormal", "huge")
"""The edge cases of a default sample, by their names in :func:`suites.numerics.edges.vectors`."""


class Sample(Answer):
    """Returns a tuple of NumPy arrays; the default is a vector of random numbers for each input of the reference.

    Attributes:
        count: How many vectors the default sample has; None if the author declares a sample or shapes.
        shapes: The declared shapes; empty if there are none.
    """

    field = "sample"
    takes = "a dtype, a size and a seed"

    def __init__(self, operator: Any, given: Given | None):
        super().__init__(operator, given)
        reference: Any = operator.reference
        self.count = None
        self.shapes: tuple[InputShape, ...] = ()
        if self.given is None and operator.shapes is not None:
            self.shapes = shapes_of(f"{operator.name}: shapes", operator.shapes)
        elif self.given is None:
            self.count = _input_count(self.where, reference.given)

    def __call__(self, dtype: str, size: int, seed: int) -> Inputs:
        if self.shapes:
            call = f"{self.operator.name}: shapes, of {dtype} and size {size}"
            return inputs_of_dtype(call, dtype, sample_of(self.shapes, dtype, size, seed))
        if self.given is None:
            random = np.random.default_rng(seed)
            return tuple(_drawn(dtype, size, random) for _ in range(self.count or 0))
        call = f"{self.where}({dtype!r}, {size}, {seed})"
        with precision(dtype):  # the function may make JAX arrays
            found = self.given(dtype, size, seed)
        return inputs_of_dtype(call, dtype, inputs_of(call, found))


class Edges(Answer):
    """Returns the inputs of each edge case; the default sample has empty ones and special values."""

    field = "edges"
    takes = "a dtype"

    def __call__(self, dtype: str) -> Mapping[str, Inputs]:
        if self.given is None:
            sample: Any = self.operator.sample
            found = {name: vector for name, vector in vectors(dtype).items() if name in SPECIAL}
            cases = {name: tuple(np.roll(each, i) for i in range(sample.count or 0)) for name, each in found.items()}
            return {name: inputs for name, inputs in cases.items() if inputs and self._fits(inputs)}
        call = f"{self.where}({dtype!r})"
        with precision(dtype):
            cases = self.given(dtype)
        if not isinstance(cases, Mapping):
            raise OperatorError(
                f"{call} returned {described(cases)}, expected a dict of inputs by the name of the case."
            )
        return {
            fields.name(f"{call}: the name of a case", name): inputs_of_dtype(
                f"{call}[{name!r}]", dtype, inputs_of(f"{call}[{name!r}]", inputs)
            )
            for name, inputs in cases.items()
        }

    def _fits(self, inputs: Inputs) -> bool:
        """Whether the domains allow these inputs, and the reference takes them: an empty vector has no mean."""
        domains = [self.operator.domain_of(index) for index in range(len(inputs))]
        if any(domain.outside(array, inputs) for domain, array in zip(domains, inputs, strict=True)):
            return False
        try:
            outputs = self.operator.truth(*inputs).outputs
        except Exception:
            return False
        if not inputs[0].size:
            return all(np.isfinite(each.value).all() for each in outputs)
        # Nothing is known of a quotient of subnormal numbers, which XLA's threads flush to zero.
        return any(each.margin is None or np.isfinite(each.margin).any() for each in outputs)


def default_hint(sample: Any, names: Sequence[str]) -> str:
    """Says what the default inputs are, and how to declare others; empty where an author declares them.

    Args:
        sample: The ``sample`` of an operator.
        names: The names of its inputs.
    """
    if not isinstance(sample, Sample) or not sample.count:
        return ""
    dtype = sample.operator.dtypes[0]
    several = f"inputs {', '.join(names[:-1])} and {names[-1]} are" if len(names) > 1 else f"input {names[0]} is"
    return (
        f"the default {several} {dtype}[33]; if other ranks or dtypes are meant, declare sample= or shapes=, for "
        f"example {example(sample.count)}"
    )


def _drawn(dtype: str, size: int, random: np.random.Generator) -> Array:
    """Typical values. Integers are not negative, because they are often indices or counts."""
    kind = np.dtype(dtype)
    return random.integers(0, 100, size).astype(kind) if kind.kind in "iu" else values(dtype, size, random)


def _input_count(where: str, reference: Any) -> int:
    """How many arrays a reference takes: one for each positional parameter without a default."""
    cure = "Pass sample=, a function of a dtype, a size and a seed that returns the inputs."
    if isinstance(getattr(reference, "nin", None), int):  # a ufunc
        return int(reference.nin)
    try:
        parameters = inspect.signature(reference).parameters.values()
    except (TypeError, ValueError) as error:
        raise OperatorError(f"{where} is not given, and the reference does not say what it takes. {cure}") from error
    open_ended = [each for each in parameters if each.kind is each.VAR_POSITIONAL]
    if open_ended:
        raise OperatorError(
            f"{where} is not given, and the reference takes any number of arrays (*{open_ended[0].name}). {cure}"
        )
    needed = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    named = [each.name for each in needed if each.kind is each.KEYWORD_ONLY]
    if named:
        raise OperatorError(
            f"{where} is not given, and the reference needs the keyword {named[0]!r}, which nothing passes. Give that "
            "a default."
        )
    if not needed:
        raise OperatorError(f"{where} is not given, and the reference takes no array. {cure}")
    return len(needed)
