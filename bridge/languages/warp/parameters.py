"""Reads the parameters of a Warp kernel, and converts between the types of Warp and of JAX."""

from __future__ import annotations

import ctypes
import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import warp as wp

from bridge.compat.warp import is_array, scalar_of, shape_of
from bridge.errors import KernelTypeError, SignatureError

MAX_DIMENSIONS = 4
"""The largest number of dimensions of a Warp array, and of a launch."""

MAX_EXTENT = 2**31 - 1
"""The largest extent of a dimension of an array or a launch: Warp indexes with 32 bits."""

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
SCALARS = {name: getattr(wp, name) for name in _NAMES}
"""Warp's scalar types by the names of JAX's dtypes."""

NAMES = {scalar: name for name, scalar in SCALARS.items()} | {bool: "bool", int: "int32", float: "float32"}
NAMES[wp.handle] = "uint64"  # of a mesh, BVH or volume
"""Names of JAX's dtypes by Warp's scalar types, and by the Python types that annotations may use."""


def jaxtype_to_warptype(dtype: Any) -> Any:
    """Warp's scalar type of a JAX dtype, such as ``warp.float32`` of ``jnp.float32``.

    Args:
        dtype: A dtype in any form that ``jnp.dtype`` accepts. Warp has bool, integers of 8 to 64 bits, float16,
            bfloat16, float32 and float64.

    Raises:
        SignatureError: Warp has no such type (complex numbers, 4-bit integers, 8-bit floats), or this is no dtype; also
            a ``TypeError``.
    """
    try:
        name = None if dtype is None else jax.numpy.dtype(dtype).name  # NumPy takes None for float64
    except TypeError:
        name = None
    if name is None:
        raise SignatureError(f"{dtype!r} is no dtype. Pass one such as jnp.float32.")
    if name not in SCALARS:
        raise SignatureError(
            f"Warp {wp.__version__} has no type for {name}, expected one of {', '.join(SCALARS)}. Convert the array "
            "first; pass a complex array as two real ones, or as one with a trailing dimension of 2."
        )
    return SCALARS[name]


def jaxinfo_to_warpinfo(info: Any) -> Any:
    """The annotation of a kernel parameter that takes arrays of this dtype and rank, ``warp.array(dtype=, ndim=)``.

    Args:
        info: A ``jax.ShapeDtypeStruct``, or anything with ``shape`` and ``dtype``. Its extents do not matter.

    Raises:
        SignatureError: As for :func:`jaxtype_to_warptype`; or the rank is not between one and four, as Warp's arrays
            require.
    """
    if not (hasattr(info, "shape") and hasattr(info, "dtype") and hasattr(info.shape, "__len__")):
        raise SignatureError(
            f"got {info!r} of type {type(info).__name__}, expected a jax.ShapeDtypeStruct or an array."
        )
    rank = len(info.shape)
    if not 1 <= rank <= MAX_DIMENSIONS:
        raise SignatureError(
            f"{info.dtype}{list(info.shape)} has {rank} dimensions, but Warp's arrays have 1 to {MAX_DIMENSIONS}. "
            "Reshape it first; a scalar becomes an array of shape (1,)."
        )
    return wp.array(dtype=jaxtype_to_warptype(info.dtype), ndim=rank)


def element_type(dtype: str, inner: tuple[int, ...]) -> Any:
    """The type of an array's elements: a scalar, a vector (``inner`` has one extent) or a matrix (two)."""
    scalar = jaxtype_to_warptype(dtype)
    if len(inner) == 1:
        return wp.types.vector(length=inner[0], dtype=scalar)
    return wp.types.matrix(shape=inner, dtype=scalar) if inner else scalar


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of a name of :data:`SCALARS`."""
    return np.dtype(jax.numpy.dtype(name))


def value_of(content: bytes, dtype: str, inner: tuple[int, ...], annotation: Any) -> Any:
    """The value of this type in memory: a number, vector, matrix or struct."""
    if dtype == STRUCT:
        return _struct_of(annotation, annotation.ctype.from_buffer_copy(content))
    if inner:
        return annotation.from_buffer_copy(content)
    return np.frombuffer(content, numpy_dtype(dtype)).item()


def _struct_of(annotation: Any, content: Any) -> Any:
    """A struct with the fields of a C struct."""
    struct = annotation()
    for name, variable in annotation.vars.items():
        value = getattr(content, name)
        if hasattr(variable.type, "vars"):
            value = _struct_of(variable.type, value)
        elif NAMES.get(variable.type) in ("float16", "bfloat16"):  # C has their bits
            value = float(np.frombuffer(np.uint16(value).tobytes(), numpy_dtype(NAMES[variable.type]))[0])
        setattr(struct, name, value)
    return struct


def addresses_in(kind: Any) -> Iterator[int]:
    """Where memory of a C type holds addresses, in bytes."""
    if hasattr(kind, "grad"):  # the descriptor of an array, whose addresses are integers
        yield from (kind.data.offset, kind.grad.offset)
    elif issubclass(kind, ctypes.Structure):
        for name, of, *_ in kind._fields_:
            yield from (getattr(kind, name).offset + byte for byte in addresses_in(of))
    elif issubclass(kind, ctypes.Array):
        size = ctypes.sizeof(kind._type_)
        yield from (size * index + byte for index in range(kind._length_) for byte in addresses_in(kind._type_))
    elif issubclass(kind, ctypes.c_void_p):
        yield 0


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

    def spec(self, shape: Sequence[int]) -> jax.ShapeDtypeStruct:
        """An array for it of this shape, in elements, as JAX sees it."""
        return jax.ShapeDtypeStruct((*shape, *(self.inner or ())), numpy_dtype(str(self.dtype)))

    def __str__(self) -> str:
        """The JAX arrays that it takes, such as ``'x' (float32, 1 dimension and (3,) of each element)``."""
        inner = f" and {self.inner} of each element" if self.inner else ""
        dimensions = f"{self.ndim} dimension{'s' if self.ndim != 1 else ''}"
        return f"{self.name!r} ({self.dtype or 'any dtype'}, {dimensions}{inner})"


def inputs_of(parameters: Iterable[WarpParameter]) -> list[WarpParameter]:
    """The array parameters that the caller passes, in order."""
    return [p for p in parameters if p.is_array and p.role is not Role.OUTPUT]


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


def check_fits(name: str, parameters: Sequence[WarpParameter], shapes: Mapping[str, Sequence[int]]) -> None:
    """Checks that arrays fit Warp's descriptor, which has extents and strides (in bytes) of 32 bits.

    Raises:
        SignatureError: One does not; Warp would take other elements than the kernel asks for.
    """
    for parameter in parameters:
        if not parameter.is_array:
            continue
        stride = numpy_dtype(str(parameter.dtype)).itemsize * math.prod(parameter.inner or ())
        for extent in reversed(shape := shapes[parameter.name]):
            if extent > MAX_EXTENT or (stride > MAX_EXTENT and extent > 1):
                raise SignatureError(
                    f"{name}: {parameter} got the shape {list(shape)}, expected extents, and bytes of a step along "
                    f"each dimension, of at most {MAX_EXTENT}: Warp's indices and strides have 32 bits. Pass it with "
                    "other dimensions (such as reshape(-1)) and compute the index, or in parts."
                )
            stride *= extent


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
