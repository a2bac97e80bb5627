"""Reads the parameters of a Warp kernel from its annotations, and completes their types with the arrays of a call."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import warp as wp

from bridge.compat.warp import is_array, scalar_of, shape_of
from bridge.errors import KernelTypeError, SignatureError
from bridge.languages.warp.dtypes import NAMES, addresses_in

STRUCT = "struct"
"""Stands for the dtype of a value that is a struct."""


class Role(enum.Enum):
    """Whether the caller passes a parameter, receives it, or both."""

    INPUT = "input"
    IN_OUT = "in/out"
    OUTPUT = "output"


@dataclass(frozen=True)
class WarpParameter:
    """One parameter of a kernel.

    Attributes:
        name: As in the kernel's source.
        role: Whether it is an input, an output, or both.
        ndim: Number of dimensions of the array, without dimensions of its elements; None for a value, which is static.
        dtype: Name of the scalar dtype; None where the kernel is generic.
        inner: Shape of a vector or matrix, ``()`` for a scalar; None where the kernel is generic.
        struct: The struct of a value of the dtype :data:`STRUCT`.
    """

    name: str
    role: Role
    ndim: int | None
    dtype: str | None
    inner: tuple[int, ...] | None
    struct: Any = None

    @property
    def is_array(self) -> bool:
        return self.ndim is not None

    @property
    def is_float(self) -> bool:
        """Whether it is an array that has a gradient."""
        return self.is_array and "float" in str(self.dtype)

    def __str__(self) -> str:
        """The JAX arrays that it takes, such as ``'x' (float32, 1 dimension and (3,) of each element)``."""
        inner = f" and {self.inner} of each element" if self.inner else ""
        dimensions = f"{self.ndim} dimension{'s' if self.ndim != 1 else ''}"
        return f"{self.name!r} ({self.dtype or 'any dtype'}, {dimensions}{inner})"


def parameters_of(kernel: wp.Kernel, output_count: int, in_out_names: Iterable[str]) -> tuple[WarpParameter, ...]:
    """The parameters of a kernel: inputs and in/out arguments first, then outputs.

    Args:
        kernel: The kernel.
        output_count: How many arrays it returns, in/out arguments included.
        in_out_names: Which of its parameters are both input and output.

    Raises:
        SignatureError: The counts or names do not fit the kernel.
        KernelTypeError: A parameter is of a type that no JAX value has.
    """
    names = [arg.label for arg in kernel.adj.args]
    signature = f"{kernel.key}({', '.join(names)})"
    if isinstance(in_out_names, str) or not isinstance(in_out_names, Iterable):
        raise SignatureError(f"{kernel.key}: in_out_argnames is {in_out_names!r}, expected a list of names.")
    in_out_names = tuple(in_out_names)
    if unknown := set(in_out_names) - set(names):
        raise SignatureError(
            f"{signature}: in_out_argnames is {list(in_out_names)}: {sorted(map(str, unknown))} did not match any "
            "function argument names."
        )
    if len(set(in_out_names)) != len(in_out_names):
        raise SignatureError(f"{signature}: in_out_argnames {list(in_out_names)} must not contain duplicate names.")
    counted = hasattr(output_count, "__index__") and not isinstance(output_count, bool)
    if not counted or not max(1, len(in_out_names)) <= output_count <= len(names):
        raise SignatureError(
            f"{signature}: num_outputs is {output_count!r} with {len(in_out_names)} in/out arguments, expected an "
            f"integer between {max(1, len(in_out_names))} and {len(names)}. It counts in/out arguments too."
        )
    pure = output_count - len(in_out_names)
    first_output = len(names) - pure
    if set(in_out_names) - set(names[:first_output]):
        raise SignatureError(
            f"{signature}: in_out_argnames is {list(in_out_names)}, expected names among {names[:first_output]}: in_out"
            f" arguments should be placed before output-only arguments, which are the last {pure}."
        )
    parameters = []
    for index, arg in enumerate(kernel.adj.args):
        role = Role.OUTPUT if index >= first_output else Role.IN_OUT if arg.label in in_out_names else Role.INPUT
        parameter = _parameter(kernel, arg.label, arg.type, role)
        if role is not Role.INPUT and not parameter.is_array:
            raise SignatureError(
                f"{signature}: the {role.value} {arg.label!r} is a value of type {parameter.dtype or 'Any'}, expected "
                "an array. Inputs come first, outputs last: check num_outputs and the order of the parameters."
            )
        parameters.append(parameter)
    return tuple(parameters)


def concrete(
    kernel: wp.Kernel, parameters: Sequence[WarpParameter], arrays: Sequence[Any]
) -> tuple[WarpParameter, ...]:
    """The parameters of a call. The parameters of a generic kernel take their types from the arrays.

    Outputs and values take the dtype of the first array whose type the kernel leaves open.

    Args:
        kernel: The kernel.
        parameters: Its parameters.
        arrays: Types (shape and dtype) of the arrays passed, one for each array that is not an output.

    Raises:
        SignatureError: An array has a dtype or shape that the parameter does not take.
    """
    given = iter(arrays)
    result: list[WarpParameter] = []
    open_type: WarpParameter | None = None
    for parameter in parameters:
        if parameter.role is not Role.OUTPUT and parameter.is_array:
            open_here = parameter.dtype is None
            parameter = _typed(kernel, parameter, next(given))
            open_type = open_type or (parameter if open_here else None)
        elif parameter.dtype is None:
            if open_type is None:
                raise SignatureError(
                    f"{kernel.key}: the type of {parameter.name!r} is open and no array before it determines it. "
                    "Annotate it, or instantiate the kernel with warp.overload."
                )
            inner = open_type.inner if parameter.is_array else ()
            parameter = replace(parameter, dtype=open_type.dtype, inner=inner)
        result.append(parameter)
    return tuple(result)


def _typed(kernel: wp.Kernel, parameter: WarpParameter, array: Any) -> WarpParameter:
    """The parameter with the type of the array that is passed for it, which has to fit."""
    assert parameter.ndim is not None
    name, inner = array.dtype.name, tuple(array.shape[parameter.ndim :])
    if parameter.dtype is None and name in NAMES.values() and len(inner) <= 2 and 0 not in inner:
        fitting = replace(parameter, dtype=name, inner=inner)
    else:
        fitting = parameter
    if len(array.shape) < parameter.ndim or name != fitting.dtype or inner != fitting.inner:
        raise SignatureError(
            f"{kernel.key}: {array.dtype}{list(array.shape)} was passed for {parameter}. Convert or reshape it first"
            + ("; with x64 disabled JAX has no 64-bit types." if str(parameter.dtype).endswith("64") else ".")
        )
    return fitting


def _parameter(kernel: wp.Kernel, name: str, annotation: Any, role: Role) -> WarpParameter:
    array = is_array(annotation)
    element = annotation.dtype if array else annotation
    ndim = int(annotation.ndim) if array else None
    if element in NAMES:
        return WarpParameter(name, role, ndim, NAMES[element], ())
    scalar = scalar_of(element)
    if scalar in NAMES and all(shape_of(element)):  # all extents are known
        return WarpParameter(name, role, ndim, NAMES[scalar], shape_of(element))
    if not array and isinstance(getattr(element, "ctype", None), type) and not any(addresses_in(element.ctype)):
        return WarpParameter(name, role, None, STRUCT, (), element)
    if element in _OPEN or scalar is not None:
        return WarpParameter(name, role, ndim, None, None)
    kind = getattr(element, "key", None) or getattr(annotation, "__name__", None) or type(annotation).__name__
    raise KernelTypeError(
        f"{kernel.key}: parameter {name!r} is of the type {kind}, which no JAX value has. Expected an array "
        "(warp.array) of scalars, vectors or matrices, such a value, or a struct of values; pass arrays that are in a "
        "struct as parameters of their own."
    )


_OPEN = (Any, wp.Scalar, wp.Float, wp.Int)
"""The annotations of a generic kernel for types that its calls determine."""
