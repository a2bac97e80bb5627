"""Wraps the functions of an operator: brings their results into one form, and fills in those that an author leaves out.

An error names the operator and the field. It is raised when the function is first used.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suites.declare import fields
from suites.declare.given_inputs import inputs_of, inputs_of_dtype
from suites.declare.shapes import InputShape, example, sample_of, shapes_of
from suites.errors import OperatorError
from suites.numerics.arrays import Inputs, specs, total_bytes
from suites.numerics.derived import derived_truth
from suites.numerics.error_model import Expected, Truth
from suites.numerics.precision import precision

Given = Callable[..., Any]


class Answer:
    """A field of an operator that is a function.

    ``dataclasses.replace`` hands the answers of an operator to its copy. The copy takes over only the author's
    functions: its defaults follow from its own fields.

    Attributes:
        field: The name of the field.
        takes: The arguments of the function, for an error.
        operator: The operator.
        given: The author's function; None for the default.
    """

    field = ""
    takes = "the inputs"
    is_required = False

    def __init__(self, operator: Any, given: Given | None):
        self.operator = operator
        given = given.given if isinstance(given, Answer) else given
        left_out = given is None and not self.is_required
        self.given = None if left_out else fields.function(self.where, given, self.takes)

    @property
    def where(self) -> str:
        """The operator and the field, with which an error begins."""
        return f"{self.operator.name}: {self.field}"

    def __repr__(self) -> str:
        return f"<{self.field} of {self.operator.name}>"


class Reference(Answer):
    """Returns the results of the reference as a list of JAX arrays."""

    field = "reference"
    takes = "JAX's arrays"
    is_required = True

    def __call__(self, *inputs: Any) -> list[jax.Array]:
        assert self.given is not None
        leaves = jax.tree.leaves(self.given(*inputs))
        if not leaves:
            raise OperatorError(f"{self.where} returned no array, expected one for each output. Return the result.")
        return list(map(self._array, leaves))

    def _array(self, leaf: Any) -> jax.Array:
        try:
            return jnp.asarray(leaf)
        except TypeError:
            raise OperatorError(
                f"{self.where} returned {fields.shown(leaf)}, expected arrays: one, or a tuple or list of them."
            ) from None


class Outputs(Answer):
    """Returns a list of ``jax.ShapeDtypeStruct``; the default is the shapes and dtypes of the reference's results."""

    field = "outputs"

    def __call__(self, *inputs: Any) -> list[jax.ShapeDtypeStruct]:
        if self.given is None:
            return list(_results_of(self.operator.reference, specs(inputs)))
        leaves = jax.tree.leaves(self.given(*inputs))
        if not leaves or not all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves):
            raise OperatorError(
                f"{self.where} returned {leaves}, expected a jax.ShapeDtypeStruct for each output. "
                "Leave it out to have those of the reference."
            )
        return list(specs(leaves))


@functools.lru_cache(maxsize=256)
def _results_of(reference: Reference, inputs: tuple[jax.ShapeDtypeStruct, ...]) -> list[jax.ShapeDtypeStruct]:
    with precision(*(each.dtype for each in inputs)):
        return list(specs(jax.eval_shape(reference, *inputs)))


class TruthOf(Answer):
    """Returns a ``Truth``; the default is derived from the reference."""

    field = "truth"

    def __call__(self, *inputs: Any) -> Truth:
        if self.given is None:
            return derived_truth(self.operator.reference, inputs, self.operator.tolerance)
        found = self.given(*inputs)
        truth = found if isinstance(found, Truth) else Truth((found,))
        if not truth.outputs or not all(isinstance(each, Expected) for each in truth.outputs):
            raise OperatorError(
                f"{self.where} returned {fields.shown(found)}, expected suites.exact(value) or suites.Expected(value, "
                "dtype, margin), several of them in a suites.Truth. Leave it out to have it derived from the reference."
            )
        return truth


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

    def without(self, dtype: str) -> dict[str, Inputs]:
        """Returns for each named axis small inputs in which it has no extent, as far as the shapes allow them."""
        axes = dict.fromkeys(axis for shape in self.shapes for axis in shape.axes if not axis.isdigit())
        found, size = {}, self.operator.sizes.check[-1]
        for axis in axes:
            with contextlib.suppress(ValueError):  # indices have an empty range
                found["empty" if len(axes) == 1 else f"empty_{axis}"] = self(dtype, size, 0, axis)
        return found

    def __call__(self, dtype: str, size: int, seed: int, empty: str | None = None) -> Inputs:
        if self.given is None:
            drawn = sample_of(self.shapes, dtype, size, seed, empty)
            for index, domain in self.operator.declared_domains(len(drawn)).items():
                drawn = (*drawn[:index], domain.moved(drawn[index], drawn), *drawn[index + 1 :])
            return inputs_of_dtype(f"{self.operator.name}: shapes, of {dtype} and size {size}", dtype, drawn)
        call = f"{self.where}({dtype!r}, {size}, {seed})"
        with precision(dtype):  # the function may make JAX arrays
            found = self.given(dtype, size, seed)
        return inputs_of_dtype(call, dtype, inputs_of(call, found))


class Edges(Answer):
    """Returns the inputs of each edge case; by default each axis is empty once, if the author declares no sample."""

    field = "edges"
    takes = "a dtype"

    def __call__(self, dtype: str) -> Mapping[str, Inputs]:
        if self.given is None:
            cases = self.operator.sample.without(dtype)
            return {name: inputs for name, inputs in cases.items() if self._takes(inputs)}
        call = f"{self.where}({dtype!r})"
        with precision(dtype):
            cases = self.given(dtype)
        if not isinstance(cases, Mapping):
            raise OperatorError(
                f"{call} returned {fields.shown(cases)}, expected a dict of inputs by the name of the case."
            )
        found = {}
        for name, inputs in cases.items():
            where = f"{call}[{name!r}]"
            found[fields.name(f"{call}: the name of a case", name)] = inputs_of_dtype(
                where, dtype, inputs_of(where, inputs)
            )
        return found

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
    needed = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    odd = next((each for each in needed if each.kind in (each.VAR_POSITIONAL, each.KEYWORD_ONLY)), None)
    if odd is not None:
        what = "any number of arrays (*" if odd.kind is odd.VAR_POSITIONAL else "a keyword, which nothing passes ("
        raise OperatorError(f"{where} is not given, and the reference takes {what}{odd.name}). {cure}")
    if not needed:
        raise OperatorError(f"{where} is not given, and the reference takes no array. {cure}")
    return len(needed)


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
            raise OperatorError(f"{self.where} returned {fields.shown(found)}, expected how many a call has.")
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
