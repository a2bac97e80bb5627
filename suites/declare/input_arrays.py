"""Names inputs, and converts those that an author's functions return to one form: NumPy arrays of known dtypes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from suites.declare import fields
from suites.errors import OperatorError
from suites.numerics.arrays import Array, Inputs
from suites.numerics.precision import NARROWER, needs_x64


def inputs_of(where: str, arrays: Any) -> Inputs:
    """Returns inputs as a tuple of NumPy arrays.

    Args:
        where: The operator, the field and its arguments, with which an error begins.
        arrays: One array, or a tuple or list of arrays.

    Raises:
        OperatorError: ``arrays`` is something else, or an array has a dtype that operators do not have.
    """
    several = tuple(arrays) if isinstance(arrays, tuple | list) else (arrays,)
    return tuple(_input(f"{where}: input {index}", each) for index, each in enumerate(several))


def _input(where: str, value: Any) -> Array:
    if not isinstance(value, np.ndarray | np.generic | jax.Array):
        raise OperatorError(f"{where} is {fields.shown(value)}, expected an array, as of np.asarray(..., dtype).")
    array = np.asarray(value)
    if array.dtype.name not in fields.DTYPES:
        names = ", ".join(fields.DTYPES)
        raise OperatorError(f"{where} is {fields.shown(array)}, expected one of {names}. Make it with .astype(dtype).")
    return array


def inputs_of_dtype(where: str, dtype: str, inputs: Inputs) -> Inputs:
    """Returns the inputs of a case. 64-bit arrays become 32-bit ones, as in JAX, unless its dtype needs x64 mode.

    Raises:
        OperatorError: No input has the dtype, or a value does not fit into 32 bits.
    """
    if not needs_x64(dtype):
        inputs = tuple(_narrow(f"{where}: input {index}", array) for index, array in enumerate(inputs))
    if inputs and not any(array.dtype == dtype for array in inputs):
        raise OperatorError(
            f"{where}: the inputs are {', '.join(array.dtype.name for array in inputs)}, expected the tested dtype "
            f"{dtype} for one of them at least. Make one of this dtype, or declare dtypes=({inputs[0].dtype.name!r},)."
        )
    return inputs


def _narrow(where: str, array: Array) -> Array:
    """Returns the array in the dtype that JAX gives it without x64 mode."""
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


def input_names(reference: Callable[..., Any], count: int) -> list[str]:
    """Returns a name for each of ``count`` inputs: the reference's parameters, or ``x0``, ``x1``, ... if they differ.

    Args:
        reference: An operator's reference, or the function of its author.
        count: The number of inputs.
    """
    numbered = [f"x{index}" for index in range(count)]
    try:
        # An operator's reference takes any number of inputs; the function of its author has names for them.
        signature = inspect.signature(getattr(reference, "function", reference))
    except (TypeError, ValueError):
        return numbered
    parameters = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return numbered
    several = [each.name for each in parameters], [each.name for each in parameters if each.default is each.empty]
    return next((names for names in several if len(names) == count), numbered)
