"""Makes the functions of an operator answer in one form, and answers for those that its author left out.

An author's function may return one array for a tuple of one, or JAX's arrays for NumPy's. What else it returns is
refused, with the names of the operator and of the field, when it is first used.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from reports import Status
from suites.declare import fields as declaration
from suites.errors import OperatorError
from suites.inputs.edges import values
from suites.inputs.precision import NARROWER, needs_x64, precision
from suites.truth.error_model import Expected, Truth, judge

if TYPE_CHECKING:
    from suites.declare.operator import Inputs, Operator

Array = np.ndarray[Any, Any]
Given = Callable[..., Any]


class Answer:
    """A field of an operator that is a function; ``given`` is what the author declared, None for the default.

    Copying an operator (``dataclasses.replace``) hands its answers on: the copy takes what was given, so that its own
    defaults follow from its own fields.
    """

    field = ""
    takes = "the inputs"

    def __init__(self, operator: Operator, given: Given | None):
        self.operator = operator
        given = given.given if isinstance(given, Answer) else given
        self.given = None if given is None else declaration.function(self.where, given, self.takes)

    @property
    def where(self) -> str:
        """What an error begins with."""
        return f"{self.operator.name}: {self.field}"

    def __repr__(self) -> str:
        return f"<{self.field} of {self.operator.name}>"


class Reference(Answer):
    """Returns a list of JAX's arrays."""

    field = "reference"
    takes = "JAX's arrays"

    def __init__(self, operator: Operator, given: Given | None):
        super().__init__(operator, given)
        if self.given is None:
            raise OperatorError(f"{self.where} is None, expected a function of {self.takes}.")

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
                f"{self.where} returned {_kind(leaf)}, expected arrays: one, or a tuple or list of them."
            ) from None


class Outputs(Answer):
    """Returns a list of ``jax.ShapeDtypeStruct``, by default those of the reference."""

    field = "outputs"

    def __init__(self, operator: Operator, given: Given | None):
        super().__init__(operator, given)
        self._known: dict[Any, list[jax.ShapeDtypeStruct]] = {}

    def __call__(self, *inputs: Any) -> list[jax.ShapeDtypeStruct]:
        if self.given is None:
            key = tuple((tuple(array.shape), np.dtype(array.dtype)) for array in inputs)
            if key not in self._known:
                self._known[key] = self._of_reference(key)
            return list(self._known[key])
        leaves = jax.tree.leaves(self.given(*inputs))
        if not leaves or not all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves):
            raise OperatorError(
                f"{self.where} returned {leaves}, expected a jax.ShapeDtypeStruct for each output. "
                "Leave it out to have those of the reference."
            )
        return list(map(_struct, leaves))

    def _of_reference(self, key: Any) -> list[jax.ShapeDtypeStruct]:
        with precision(*(dtype for _, dtype in key)):
            specs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in key]
            return list(map(_struct, jax.eval_shape(self.operator.reference, *specs)))


def _struct(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


class TruthOf(Answer):
    """Returns a ``Truth``, by default one derived from the reference."""

    field = "truth"

    def __call__(self, *inputs: Any) -> Truth:
        if self.given is None:
            from suites.truth.derived import derived_truth

            return derived_truth(self.operator.reference, inputs, self.operator.tolerance)
        found = self.given(*inputs)
        if isinstance(found, Truth):
            return found
        several = (found,) if isinstance(found, Expected) else found
        if isinstance(several, tuple | list) and several and all(isinstance(each, Expected) for each in several):
            return Truth(tuple(several))
        raise OperatorError(
            f"{self.where} returned {_kind(found)}, expected suites.exact(value) or suites.bounded(value, dtype, ...) "
            "for each output, in a suites.Truth. Leave it out to have it derived from the reference."
        )


class Sample(Answer):
    """Returns a tuple of NumPy's arrays, by default a vector of random numbers for each input of the reference.

    Attributes:
        count: How many inputs the default sample has; None if it is not the default.
    """

    field = "sample"
    takes = "a dtype, a size and a seed"

    def __init__(self, operator: Operator, given: Given | None):
        super().__init__(operator, given)
        reference: Any = operator.reference
        self.count = _input_count(self.where, reference.given) if self.given is None else None

    def __call__(self, dtype: str, size: int, seed: int) -> Inputs:
        if self.given is None:
            random = np.random.default_rng(seed)
            return tuple(_drawn(dtype, size, random) for _ in range(self.count or 0))
        call = f"{self.where}({dtype!r}, {size}, {seed})"
        with precision(dtype):  # JAX's arrays may be part of it
            found = self.given(dtype, size, seed)
        return _of_dtype(call, dtype, inputs_of(call, found))


class Edges(Answer):
    """Returns a dict of tuples of NumPy's arrays, by default special values if the sample is the default as well."""

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
            raise OperatorError(f"{call} returned {_kind(cases)}, expected a dict of inputs by the name of the case.")
        return {
            declaration.name(f"{call}: the name of a case", name): _of_dtype(
                f"{call}[{name!r}]", dtype, inputs_of(f"{call}[{name!r}]", inputs)
            )
            for name, inputs in cases.items()
        }

    def _special(self, dtype: str, count: int) -> Mapping[str, Inputs]:
        cases = {
            name: tuple(np.roll(vector, index) for index in range(count))
            for name, vector in special_vectors(dtype).items()
        }
        return {name: inputs for name, inputs in cases.items() if self._is_decided(inputs)}

    def _is_decided(self, inputs: Inputs) -> bool:
        """Whether there is one right result.

        The reference may take no empty inputs, as that of a maximum. And XLA's threads flush subnormal numbers to zero,
        so that nobody can tell what their quotient is.
        """
        tiny = {array.dtype: float(np.finfo(array.dtype).tiny) for array in inputs if array.dtype.kind == "f"}
        flushed = [
            np.where(np.abs(array) < tiny[array.dtype], np.copysign(0, array), array).astype(array.dtype)
            if array.dtype in tiny
            else array
            for array in inputs
        ]
        try:
            truth, other = self.operator.truth(*inputs), self.operator.truth(*flushed)
        except Exception:
            return False
        with np.errstate(over="ignore"):
            results = [expected.value.astype(expected.dtype) for expected in other.outputs]
        return judge(results, truth).status is Status.PASSED


class Work(Answer):
    """Returns bytes or operations of a call, as an int."""

    default: Callable[[Operator, Inputs], int | None]

    def __call__(self, *inputs: Any) -> int | None:
        if self.given is None:
            work: int | None = type(self).default(self.operator, inputs)
            return work
        found = self.given(*inputs)
        if found is None and self.field == "flops":
            return None
        is_number = isinstance(found, int | float | np.integer | np.floating) and not isinstance(found, bool)
        if not is_number or not math.isfinite(found) or found < 0:
            raise OperatorError(f"{self.where} returned {_kind(found)}, expected how many there are in one call.")
        return math.ceil(float(found))


class BytesRead(Work):
    """Bytes that a call reads, by default those of all inputs."""

    field = "bytes_read"

    @staticmethod
    def default(operator: Operator, inputs: Inputs) -> int:
        """Those of all inputs."""
        return total_bytes(*inputs)


class BytesWritten(Work):
    """Bytes that a call writes, by default those of all outputs."""

    field = "bytes_written"

    @staticmethod
    def default(operator: Operator, inputs: Inputs) -> int:
        """Those of all outputs."""
        return total_bytes(*operator.outputs(*inputs))


class Flops(Work):
    """Operations of a call, by default None: nobody has said how many."""

    field = "flops"

    @staticmethod
    def default(operator: Operator, inputs: Inputs) -> None:
        """Unknown."""


ANSWERS = (Reference, Outputs, TruthOf, Sample, Edges, BytesRead, BytesWritten, Flops)
"""Those of an operator, in the order in which they may refer to each other."""


def total_bytes(*arrays: Any) -> int:
    """Bytes of arrays or specs."""
    return sum(int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize for array in arrays)


def inputs_of(where: str, found: Any) -> Inputs:
    """Inputs as a tuple of NumPy's arrays.

    Args:
        where: What an error begins with: the operator, the field and its arguments.
        found: One array, or a sequence of them.
    """
    several = tuple(found) if isinstance(found, tuple | list) else (found,)
    return tuple(_input(f"{where}: input {index}", each) for index, each in enumerate(several))


def _input(where: str, given: Any) -> Array:
    if not isinstance(given, np.ndarray | np.generic | jax.Array):
        raise OperatorError(f"{where} is {_kind(given)}, expected an array. Make it with np.asarray(..., dtype).")
    array = np.asarray(given)
    if array.dtype.name not in (*declaration.DTYPES, "bfloat16"):
        known = ", ".join(declaration.DTYPES)
        raise OperatorError(f"{where} is {_kind(array)}, expected one of {known}. Make it with .astype(dtype).")
    return array


def _of_dtype(where: str, dtype: str, inputs: Inputs) -> Inputs:
    """The inputs of a case of a dtype, in JAX's x64 mode if that dtype needs it, and not otherwise."""
    if not needs_x64(dtype):
        inputs = tuple(_narrow(f"{where}: input {index}", array) for index, array in enumerate(inputs))
    if inputs and not any(array.dtype == dtype for array in inputs):
        raise OperatorError(
            f"{where} returned {', '.join(array.dtype.name for array in inputs)}, expected {dtype} for one of the "
            "inputs at least. Make it with .astype(dtype), or leave this dtype out of dtypes."
        )
    return inputs


def _narrow(where: str, array: Array) -> Array:
    """What JAX makes of an array without its x64 mode."""
    if not needs_x64(array.dtype):
        return array
    narrow = np.dtype(NARROWER[array.dtype.name])
    if narrow.kind in "iu" and array.size:
        limits = np.iinfo(narrow)
        if array.min() < limits.min or array.max() > limits.max:
            raise OperatorError(
                f"{where} has values beyond {narrow}, which JAX makes of {array.dtype} where dtypes have 32 bits. "
                f"Declare dtypes=({array.dtype.name!r},), or return smaller values."
            )
    with np.errstate(over="ignore"):
        return array.astype(narrow)


def special_vectors(dtype: str) -> dict[str, Array]:
    """Vectors on which a kernel may go wrong though it is right on ordinary numbers, but none on which it may not."""
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
    """Typical values, none of them below zero if they are integers: those are often indices or counts."""
    kind = np.dtype(dtype)
    return random.integers(0, 100, size).astype(kind) if kind.kind in "iu" else values(dtype, size, random)


def _input_count(where: str, reference: Any) -> int:
    """How many arrays a reference takes: its positional parameters without a default."""
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


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray | jax.Array):
        return f"an array of {value.dtype}"
    text = repr(value)
    return f"{type(value).__name__} {text}" if len(text) < 60 else f"a {type(value).__name__}"
