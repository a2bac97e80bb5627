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
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision


class Sample(Answer):
    """Returns a tuple of NumPy arrays; the default is a vector of random numbers for each input of the reference.

    Attributes:
        count: How many vectors the default sample has; None if the author declares a sample or shapes.
        shapes: The shapes, declared or not; empty if the author declares a sample.
    """

    field = "sample"
    takes = "a dtype, a size and a seed"

    def __init__(self, operator: Any, given: Given | None):
        super().__init__(operator, given)
        reference: Any = operator.reference
        self.count = None
        self.shapes: tuple[InputShape, ...] = ()
        if self.given is None:
            if operator.shapes is None:
                self.count = _input_count(self.where, reference.given)
            self.shapes = shapes_of(f"{operator.name}: shapes", operator.shapes or ("n",) * (self.count or 0))

    def __call__(self, dtype: str, size: int, seed: int) -> Inputs:
        if self.given is None:
            call = f"{self.operator.name}: shapes, of {dtype} and size {size}"
            return inputs_of_dtype(call, dtype, sample_of(self.shapes, dtype, size, seed))
        call = f"{self.where}({dtype!r}, {size}, {seed})"
        with precision(dtype):  # the function may make JAX arrays
            found = self.given(dtype, size, seed)
        return inputs_of_dtype(call, dtype, inputs_of(call, found))


class Edges(Answer):
    """Returns the inputs of each edge case; the default is empty vectors, if the author declares no sample."""

    field = "edges"
    takes = "a dtype"

    def __call__(self, dtype: str) -> Mapping[str, Inputs]:
        if self.given is None:
            inputs = (np.zeros(0, dtype),) * (self.operator.sample.count or 0)
            return {"empty": inputs} if inputs and self._takes(inputs) else {}
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

    def _takes(self, inputs: Inputs) -> bool:
        """Whether the reference takes these inputs: an empty vector has no mean."""
        try:
            outputs = self.operator.truth(*inputs).outputs
        except Exception:
            return False
        return all(np.isfinite(each.value).all() for each in outputs)


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
