"""Wraps the functions of an operator: converts their results to one form, and has defaults for missing functions.

An error names the operator and the field. It is raised at the first call of the function.
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
from suites.declare.input_arrays import inputs_of, inputs_of_dtype
from suites.declare.shapes import InputShape, example, sample_of, shapes_of
from suites.errors import OperatorError
from suites.numerics.arrays import Inputs, specs, total_bytes
from suites.numerics.derived import derived_truth
from suites.numerics.error_model import Expected, Truth
from suites.numerics.precision import precision

Function = Callable[..., Any]


class Answer:
    """A field of an operator that is a function.

    ``dataclasses.replace`` passes the answers of an operator to its copy. The copy keeps only the author's functions:
    its defaults follow from its own fields.

    Attributes:
        field: The name of the field.
        takes: The arguments of the function, for an error.
        operator: The operator.
        function: The author's function; None for the default.
    """

    field = ""
    takes = "the inputs"
    is_required = False

    def __init__(self, operator: Any, function: Function | None):
        self.operator = operator
        function = function.function if isinstance(function, Answer) else function
        left_out = function is None and not self.is_required
        self.function = None if left_out else fields.function(self.where, function, self.takes)

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
        assert self.function is not None
        leaves = jax.tree.leaves(self.function(*inputs))
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
        if self.function is None:
            return list(_results_of(self.operator.reference, specs(inputs)))
        leaves = jax.tree.leaves(self.function(*inputs))
        if not leaves or not all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves):
            raise OperatorError(
                f"{self.where} returned {leaves}, expected a jax.ShapeDtypeStruct for each output. "
                "Leave it out to use those of the reference."
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
        if self.function is None:
            return derived_truth(self.operator.reference, inputs, self.operator.tolerance)
        result = self.function(*inputs)
        truth = result if isinstance(result, Truth) else Truth((result,))
        if not truth.outputs or not all(isinstance(each, Expected) for each in truth.outputs):
            raise OperatorError(
                f"{self.where} returned {fields.shown(result)}, expected suites.exact(value) or suites.Expected(value, "
                "dtype, margin), several of them in a suites.Truth. Leave it out to derive it from the reference."
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

    def __init__(self, operator: Any, function: Function | None):
        super().__init__(operator, function)
        reference: Any = operator.reference
        self.count = None
        self.shapes: tuple[InputShape, ...] = ()
        if self.function is None:
            if operator.shapes is None:
                self.count = _input_count(self.where, reference.function)
            self.shapes = shapes_of(f"{operator.name}: shapes", operator.shapes or ("n",) * (self.count or 0))

    def without(self, dtype: str) -> dict[str, Inputs]:
        """Returns for each named axis small inputs in which its extent is 0, if the shapes allow such inputs."""
        axes = dict.fromkeys(axis for shape in self.shapes for axis in shape.axes if not axis.isdigit())
        cases, size = {}, self.operator.sizes.check[-1]
        for axis in axes:
            with contextlib.suppress(ValueError):  # the range of indices is empty
                cases["empty" if len(axes) == 1 else f"empty_{axis}"] = self(dtype, size, 0, axis)
        return cases

    def __call__(self, dtype: str, size: int, seed: int, empty: str | None = None) -> Inputs:
        if self.function is None:
            drawn = sample_of(self.shapes, dtype, size, seed, empty)
            for index, domain in self.operator.declared_domains(len(drawn)).items():
                drawn = (*drawn[:index], domain.moved(drawn[index], drawn), *drawn[index + 1 :])
            return inputs_of_dtype(f"{self.operator.name}: shapes, of {dtype} and size {size}", dtype, drawn)
        call = f"{self.where}({dtype!r}, {size}, {seed})"
        with precision(dtype):  # the function may make JAX arrays
            arrays = self.function(dtype, size, seed)
        return inputs_of_dtype(call, dtype, inputs_of(call, arrays))


class Edges(Answer):
    """Returns the inputs of each edge case. The default, without a declared sample, is one case for each empty axis."""

    field = "edges"
    takes = "a dtype"

    def __call__(self, dtype: str) -> Mapping[str, Inputs]:
        if self.function is None:
            cases = self.operator.sample.without(dtype)
            return {name: inputs for name, inputs in cases.items() if self._takes(inputs)}
        call = f"{self.where}({dtype!r})"
        with precision(dtype):
            cases = self.function(dtype)
        if not isinstance(cases, Mapping):
            raise OperatorError(
                f"{call} returned {fields.shown(cases)}, expected a dict of inputs by the name of the case."
            )
        edges = {}
        for name, inputs in cases.items():
            where = f"{call}[{name!r}]"
            edges[fields.name(f"{call}: the name of a case", name)] = inputs_of_dtype(
                where, dtype, inputs_of(where, inputs)
            )
        return edges

    def _takes(self, inputs: Inputs) -> bool:
        """Tells whether the reference is defined for these inputs: an empty vector has no mean."""
        try:
            outputs = self.operator.truth(*inputs).outputs
        except Exception:
            return False
        return all(np.isfinite(each.value).all() for each in outputs)


def default_hint(sample: Any, names: Sequence[str]) -> str:
    """Returns what the default inputs are, and how to declare others, for an error; empty if the author declares them.

    Args:
        sample: The ``sample`` of an operator.
        names: The names of its inputs.
    """
    if not isinstance(sample, Sample) or not sample.count:
        return ""
    dtype = sample.operator.dtypes[0]
    several = f"inputs {', '.join(names[:-1])} and {names[-1]} are" if len(names) > 1 else f"input {names[0]} is"
    return (
        f"the default {several} {dtype}[33]; for other ranks or dtypes declare sample= or shapes=, for example "
        f"{example(sample.count)}"
    )


def _input_count(where: str, reference: Any) -> int:
    """Returns how many arrays a reference takes: one for each positional parameter without a default."""
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
        what = "any number of arrays (*" if odd.kind is odd.VAR_POSITIONAL else "a keyword, which no check passes ("
        raise OperatorError(f"{where} is not given, and the reference takes {what}{odd.name}). {cure}")
    if not needed:
        raise OperatorError(f"{where} is not given, and the reference takes no array. {cure}")
    return len(needed)


class Flops(Answer):
    """Returns the operations of a call as an int; the default is None, unknown."""

    field = "flops"

    def default(self, inputs: Inputs) -> int | None:
        """Returns the number if the author declares none."""
        return None

    def __call__(self, *inputs: Any) -> int | None:
        if self.function is None:
            return self.default(inputs)
        count = self.function(*inputs)
        if count is None and self.field == "flops":
            return None
        is_number = isinstance(count, int | float | np.integer | np.floating) and not isinstance(count, bool)
        if not is_number or not math.isfinite(count) or count < 0:
            raise OperatorError(f"{self.where} returned {fields.shown(count)}, expected a number from 0 on.")
        return math.ceil(float(count))


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
