"""Answers for an operator's inputs: its samples and its edge cases, with defaults for authors who declare none."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from suites.declare import fields
from suites.declare.answer import Answer, Declared, Given
from suites.declare.given_inputs import described, inputs_of, inputs_of_dtype
from suites.errors import OperatorError
from suites.numerics.arrays import Array, Inputs
from suites.numerics.edges import values
from suites.numerics.precision import precision


class Sample(Answer):
    """Returns a tuple of NumPy arrays; the default is a vector of random numbers for each input of the reference.

    Attributes:
        count: How many inputs the default sample has; None if the author declares a sample.
    """

    field = "sample"
    takes = "a dtype, a size and a seed"

    def __init__(self, operator: Declared, given: Given | None):
        super().__init__(operator, given)
        reference: Any = operator.reference
        self.count = _input_count(self.where, reference.given) if self.given is None else None

    def __call__(self, dtype: str, size: int, seed: int) -> Inputs:
        if self.given is None:
            random = np.random.default_rng(seed)
            return tuple(_drawn(dtype, size, random) for _ in range(self.count or 0))
        call = f"{self.where}({dtype!r}, {size}, {seed})"
        with precision(dtype):  # the function may make JAX arrays
            found = self.given(dtype, size, seed)
        return inputs_of_dtype(call, dtype, inputs_of(call, found))


class Edges(Answer):
    """Returns the inputs of each edge case; the default is special values for a default sample, and none otherwise."""

    field = "edges"
    takes = "a dtype"

    def __call__(self, dtype: str) -> Mapping[str, Inputs]:
        if self.given is None:
            sample: Any = self.operator.sample
            return self._special(dtype, sample.count) if sample.count else {}
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

    def _special(self, dtype: str, count: int) -> Mapping[str, Inputs]:
        cases = {
            name: tuple(np.roll(vector, index) for index in range(count))
            for name, vector in special_vectors(dtype).items()
        }
        return {name: inputs for name, inputs in cases.items() if self._has_truth(inputs)}

    def _has_truth(self, inputs: Inputs) -> bool:
        """Whether the reference takes these inputs, and an error bound is known for a result.

        It may refuse empty ones: an empty vector has no maximum. Nothing is known of a quotient of subnormal numbers,
        which XLA's threads flush to zero.
        """
        try:
            outputs = self.operator.truth(*inputs).outputs
        except Exception:
            return False
        return any(each.margin is None or not each.value.size or np.isfinite(each.margin).any() for each in outputs)


def special_vectors(dtype: str) -> dict[str, Array]:
    """Vectors on which a kernel that is right on ordinary numbers may still go wrong."""
    kind = np.dtype(dtype)
    cases = {"empty": np.zeros(0, kind), "one": np.ones(1, kind)}
    if kind.kind != "f":
        return cases  # integers overflow and divide in each language's own way
    info: Any = np.finfo(kind)
    small = info.smallest_subnormal
    special = {
        "nan": [1, np.nan, -2, 3, np.nan, 4],
        "infinities": [np.inf, 1, -np.inf, 2, -3, np.inf],
        "signed_zeros": [-0.0, 0.0, -0.0, -0.0, 0.0, 0.0],
        "subnormal": [small, -small, info.tiny / 2, small * 3, -info.tiny / 4, small * 5],
        "largest": [info.max, -info.max, info.max, info.max, -info.max, info.max],
    }
    return cases | {name: np.array(vector, kind) for name, vector in special.items()}


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
