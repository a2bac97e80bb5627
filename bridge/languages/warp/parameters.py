"""Reads the parameters of a Warp kernel from its annotations."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import warp as wp

from bridge.errors import KernelTypeError, SignatureError
from bridge.languages.warp.dtypes import NAMES


class Role(enum.Enum):
    """Whether the caller passes a parameter, receives it, or both."""

    INPUT = "input"
    IN_OUT = "in/out"
    OUTPUT = "output"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: As in the kernel's source.
        role: Whether it is an input, an output, or both.
        ndim: Number of dimensions of the array, without dimensions of its elements; None for a value, which is static.
        dtype: Name of the scalar dtype; None where the kernel is generic.
        inner: Shape of a vector or matrix, ``()`` for a scalar; None where the kernel is generic.
    """

    name: str
    role: Role
    ndim: int | None
    dtype: str | None
    inner: tuple[int, ...] | None

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


def parameters_of(kernel: wp.Kernel, output_count: int, in_out_names: Sequence[str]) -> tuple[Parameter, ...]:
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
    if isinstance(output_count, bool) or not hasattr(output_count, "__index__") or output_count < 1:
        raise SignatureError(
            f"{signature}: num_outputs is {output_count!r}, expected an integer of at least 1: a kernel returns its "
            "results through arrays."
        )
    unknown = [name for name in in_out_names if name not in names]
    if unknown or len(set(in_out_names)) != len(in_out_names):
        raise SignatureError(
            f"{signature}: in_out_argnames is {list(in_out_names)}, expected different names of its parameters."
        )
    pure = output_count - len(in_out_names)
    if pure < 0 or output_count > len(names):
        raise SignatureError(
            f"{signature}: num_outputs is {output_count} with {len(in_out_names)} in/out arguments, expected between "
            f"{max(1, len(in_out_names))} and {len(names)}. It counts in/out arguments too."
        )
    first_output = len(names) - pure
    parameters = []
    for index, arg in enumerate(kernel.adj.args):
        role = Role.OUTPUT if index >= first_output else Role.IN_OUT if arg.label in in_out_names else Role.INPUT
        if role is Role.OUTPUT and arg.label in in_out_names:
            raise SignatureError(
                f"{signature}: the in/out argument {arg.label!r} lies among the last {pure} parameters, which are "
                "outputs. In the kernel, put in/out arguments before outputs; num_outputs counts both."
            )
        parameter = _parameter(kernel, arg.label, arg.type, role)
        if role is not Role.INPUT and not parameter.is_array:
            raise SignatureError(
                f"{signature}: the {role.value} {arg.label!r} is a value of type {parameter.dtype or 'Any'}, expected "
                "an array. Inputs come first, outputs last: check num_outputs and the order of the parameters."
            )
        parameters.append(parameter)
    return tuple(parameters)


def _parameter(kernel: wp.Kernel, name: str, annotation: Any, role: Role) -> Parameter:
    array = is_array(annotation)
    element = annotation.dtype if array else annotation
    ndim = int(annotation.ndim) if array else None
    if element in NAMES:
        return Parameter(name, role, ndim, NAMES[element], ())
    scalar = getattr(element, "_wp_scalar_type_", None)
    if scalar in NAMES and all(element._shape_):  # an extent that is left open is 0
        return Parameter(name, role, ndim, NAMES[scalar], tuple(element._shape_))
    if element in _OPEN or hasattr(element, "_wp_scalar_type_"):
        return Parameter(name, role, ndim, None, None)
    raise KernelTypeError(
        f"{kernel.key}: parameter {name!r} is a {_described(annotation)}, which no JAX value can be. Expected an array "
        "(warp.array) of scalars, vectors or matrices, or such a value; pass the fields of a struct as parameters of "
        "their own."
    )


_OPEN = (Any, wp.Scalar, wp.Float, wp.Int)
"""The annotations of a generic kernel for types that its calls determine."""


def is_array(annotation: Any) -> bool:
    """Whether an annotation declares a regular array; it may be written ``warp.array[float]``."""
    return isinstance(annotation, wp.array) or getattr(annotation, "_concrete_cls", None) is wp.array


def _is_struct(annotation: Any) -> TypeGuard[Any]:
    """Whether ``warp.struct`` made an annotation. Warp does not export the type of such classes."""
    return hasattr(annotation, "native_name") and hasattr(annotation, "key")


def _described(annotation: Any) -> str:
    if _is_struct(annotation):
        return f"struct {annotation.key}"
    if _is_struct(element := getattr(annotation, "dtype", None)):
        return f"array of the struct {element.key}"
    return getattr(annotation, "__name__", None) or type(annotation).__name__
