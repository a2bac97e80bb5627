"""The parameters of a Warp kernel, as its annotations declare them and as a call makes them concrete."""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import jax
import numpy as np
import warp as wp

from bridge.errors import KernelTypeError, ParameterError, SignatureError
from bridge.languages.warp.dtypes import LOCK, NAMES, element_type, numpy_dtype
from bridge.source.parsing import parse


class Role(enum.Enum):
    """What a parameter is to the caller."""

    INPUT = "input"
    IN_OUT = "in/out"
    OUTPUT = "output"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: As in the kernel's source.
        role: Whether the caller passes it, receives it, or both.
        ndim: Dimensions of the array, without those of its elements; None for a value, which is static.
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
        """What a JAX array must be to be passed, such as ``'x' (float32, 1 dimension and (3,) of each element)``."""
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
    written = _written(kernel)
    for parameter in parameters:
        if parameter.is_array and parameter.role is Role.INPUT and parameter.name in written:
            raise SignatureError(
                f"{signature}: the kernel writes to its input {parameter.name!r}, but JAX's arrays do not change. Name "
                f"it in in_out_argnames=[{parameter.name!r}] and count it in num_outputs, or put it among the outputs."
            )
    return tuple(parameters)


def _written(kernel: wp.Kernel) -> set[str]:
    """Names that the kernel itself assigns elements of, or changes atomically; functions it calls are not followed."""
    found = set()
    for node in ast.walk(_tree(kernel)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and called_name(node).startswith(_WRITING):
            found |= {name.id for name in map(_root, _changed(node)) if isinstance(name, ast.Name)}
        # Assigning to a name makes a variable; assigning to an element of it changes the array.
        elements = [target for target in targets if isinstance(target, ast.Subscript | ast.Attribute)]
        found |= {name.id for name in map(_root, elements) if isinstance(name, ast.Name)}
    return found


def extremes_of(kernel: wp.Kernel) -> frozenset[str]:
    """Parameters that the kernel uses for nothing but ``atomic_max`` and ``atomic_min``."""
    tree = _tree(kernel)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and called_name(node) in _EXTREMES]
    changed = [name for node in calls for name in map(_root, _changed(node)) if isinstance(name, ast.Name)]
    others = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in changed}
    return frozenset({name.id for name in changed} - others)


_WRITING = ("atomic_", "tile_atomic_", "store", "tile_store")
_EXTREMES = ("atomic_max", "atomic_min")


def _tree(kernel: wp.Kernel) -> ast.AST:
    return parse(kernel.adj.source)


def called_name(node: ast.Call) -> str:
    """Name of the function that is called, without that of its module."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _changed(node: ast.Call) -> list[ast.expr]:
    """What a function of Warp that writes to an array writes to: its first argument."""
    return [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg in ("a", "arr"))]


def _root(node: ast.expr) -> ast.expr:
    """The array of which a node is an element, a row or a component."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node


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
"""What a generic kernel writes for types that its calls determine."""


def is_array(annotation: Any) -> bool:
    """Whether an annotation is that of a regular array, also when it is written ``warp.array[float]``."""
    return isinstance(annotation, wp.array) or getattr(annotation, "_concrete_cls", None) is wp.array


def _is_struct(annotation: Any) -> TypeGuard[Any]:
    """Whether an annotation is what ``warp.struct`` makes of a class; Warp does not export its type."""
    return hasattr(annotation, "native_name") and hasattr(annotation, "key")


def _described(annotation: Any) -> str:
    if _is_struct(annotation):
        return f"struct {annotation.key}"
    if _is_struct(element := getattr(annotation, "dtype", None)):
        return f"array of the struct {element.key}"
    return getattr(annotation, "__name__", None) or type(annotation).__name__


def concrete(kernel: wp.Kernel, parameters: Sequence[Parameter], arrays: Sequence[Any]) -> tuple[Parameter, ...]:
    """The parameters of a call: those of a generic kernel take their types from the arrays.

    An output, and a value, takes the dtype of the first array whose type the kernel leaves open.

    Args:
        kernel: The kernel.
        parameters: Its parameters.
        arrays: Types (shape and dtype) of the arrays passed, one for each array that is not an output.

    Raises:
        SignatureError: An array has a dtype or shape that the parameter does not take.
    """
    given = iter(arrays)
    result: list[Parameter] = []
    open_type: Parameter | None = None
    for parameter in parameters:
        if parameter.role is not Role.OUTPUT and parameter.is_array:
            array = next(given)
            if parameter.dtype is None:
                parameter = _typed(kernel, parameter, array)
                open_type = open_type or parameter
            _check(kernel, parameter, array)
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


def _typed(kernel: wp.Kernel, parameter: Parameter, array: Any) -> Parameter:
    assert parameter.ndim is not None
    inner_rank, inner = len(array.shape) - parameter.ndim, tuple(array.shape[parameter.ndim :])
    if array.dtype.name not in NAMES.values() or not 0 <= inner_rank <= 2 or 0 in inner:
        raise SignatureError(
            f"{kernel.key}: {array.dtype}{list(array.shape)} was passed for {parameter}, expected an array of a dtype "
            f"that Warp has, of rank {parameter.ndim}, or of a rank one or two higher for vectors or matrices."
        )
    return replace(parameter, dtype=array.dtype.name, inner=inner)


def _check(kernel: wp.Kernel, parameter: Parameter, array: Any) -> None:
    inner = parameter.inner or ()
    assert parameter.ndim is not None
    fits = len(array.shape) == parameter.ndim + len(inner) and tuple(array.shape[parameter.ndim :]) == inner
    if array.dtype.name != parameter.dtype or not fits:
        raise SignatureError(
            f"{kernel.key}: {array.dtype}{list(array.shape)} was passed for {parameter}. Convert or reshape it first"
            + ("; with x64 disabled JAX has no 64-bit types." if str(parameter.dtype).endswith("64") else ".")
        )


def instantiated(kernel: wp.Kernel, types: Sequence[tuple[int | None, str, tuple[int, ...]]]) -> wp.Kernel:
    """The kernel itself, or the instance of a generic one.

    Args:
        kernel: The kernel.
        types: Of each parameter: dimensions (None for a value), scalar dtype, and inner shape of its elements.

    Raises:
        SignatureError: The kernel is not generic in this way.
    """
    if not kernel.is_generic:
        return kernel
    annotations = []
    for ndim, dtype, inner in types:
        element = element_type(dtype, inner)
        annotations.append(element if ndim is None else wp.array(dtype=element, ndim=ndim))
    with LOCK:
        try:
            return wp.overload(kernel, annotations)
        except TypeError as error:
            raise SignatureError(f"{error}. Convert the array, or annotate the kernel with Any.") from error


def restore(kernel: wp.Kernel) -> None:
    """Puts an instance of a generic kernel back among those that Warp compiles, if it was withdrawn. Hold the lock."""
    generic = kernel.generic_parent
    if generic is not None and generic.overloads.get(kernel.sig) is not kernel:
        generic.overloads[kernel.sig] = kernel
        generic.module.mark_modified()


def withdraw(kernel: wp.Kernel) -> None:
    """Takes an instance that cannot be compiled away from its generic kernel: Warp compiles all of them together.

    Hold the lock.
    """
    generic = kernel.generic_parent
    if generic is not None and generic.overloads.pop(kernel.sig, None) is not None:
        generic.module.mark_modified()


@dataclass(frozen=True)
class Static:
    """A value that a call compiles in; hashable, and different for -0.0 and 0.0, 1 and True."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes

    @classmethod
    def of(cls, value: Any, kernel: wp.Kernel, parameter: Parameter) -> Static:
        """Freezes what the caller passed for a parameter that is no array.

        Raises:
            ParameterError: The value is traced.
            SignatureError: It is no number, vector or matrix.
        """
        if isinstance(value, jax.core.Tracer):
            raise ParameterError(
                f"{kernel.key}: {parameter.name!r} is a traced value ({jax.typeof(value)}), but values are compiled "
                "into the call; only arrays vary. Mark it static in the surrounding jax.jit, or declare it in the "
                "kernel as a warp.array of one element."
            )
        try:
            if (scalar := getattr(value, "_wp_scalar_type_", None)) in NAMES:  # NumPy takes its halves for integers
                array = np.frombuffer(bytes(value), numpy_dtype(NAMES[scalar])).reshape(value._shape_)
            else:
                array = np.asarray(getattr(value, "value", value))  # Warp's scalars hold a Python number
        except (TypeError, ValueError) as error:
            raise _bad_value(kernel, parameter, value) from error
        if array.dtype.name not in NAMES.values():
            raise _bad_value(kernel, parameter, value)
        return cls(array.dtype.name, array.shape, array.tobytes())

    def array(self) -> np.ndarray[Any, Any]:
        """The value again."""
        return np.frombuffer(self.content, numpy_dtype(self.dtype)).reshape(self.shape)

    def as_type(self, kernel: wp.Kernel, parameter: Parameter) -> bytes:
        """The value in memory, in the type of a parameter.

        Raises:
            SignatureError: The parameter's type cannot hold it.
        """
        given, wanted = self.array(), numpy_dtype(str(parameter.dtype))
        with np.errstate(all="ignore"):
            converted = given.astype(wanted)
            exact = wanted.kind not in "biu" or np.array_equal(converted, given)
            overflown = np.any(np.isinf(converted.astype(float)) & np.isfinite(given.astype(float)))
        if given.shape != (parameter.inner or ()) or not exact or overflown:
            raise _bad_value(kernel, parameter, given.tolist() if given.ndim == 0 else tuple(given.tolist()))
        return converted.tobytes()


def _bad_value(kernel: wp.Kernel, parameter: Parameter, value: Any) -> SignatureError:
    inner = f" of shape {parameter.inner}" if parameter.inner else ""
    return SignatureError(
        f"{kernel.key}: {parameter.name!r} is {value!r}, expected a value that {parameter.dtype or 'a Warp type'}"
        f"{inner} can hold."
    )
