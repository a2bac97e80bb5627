"""Works out what a C function is called with, from a user's function of the arrays, and checks it against its types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bridge.errors import BridgeError, SignatureError
from bridge.languages.native_cpu.functions import dtype_of, is_pointer
from bridge.signature.arguments import parameter_names
from bridge.signature.array_types import ArrayType, Signature, place_of


@dataclass(frozen=True)
class Size:
    """A number of elements, which is read at each call: the product of some extents of an array."""

    buffer: int
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Array:
    """Stands for an input or output where a user says what a C function is called with. It has no values.

    Attributes:
        name: Its name, for errors.
        buffer: Its index among the arrays of the call.
        type: Its type.
    """

    name: str = field(repr=False)
    buffer: int
    type: ArrayType

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return self.type.rank

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its elements."""
        return np.dtype(self.type.dtype)

    @property
    def shape(self) -> tuple[Size, ...]:
        """Its extents."""
        return tuple(Size(self.buffer, (axis,)) for axis in range(self.ndim))

    @property
    def size(self) -> Size:
        """The number of its elements."""
        return Size(self.buffer, tuple(range(self.ndim)))


@dataclass(frozen=True)
class Argument:
    """One argument of the C function.

    Attributes:
        value: An array, a size, a number, or the content of a string.
        dtype: The type of the size or number; None for the others, which are pointers.
        by_address: Whether the function gets the address of the size or number.
    """

    value: Array | Size | int | float | bytes
    dtype: np.dtype[Any] | None = None
    by_address: bool = False


def arguments_of(
    name: str, function: Callable[..., Any], argtypes: tuple[Any, ...] | None, signature: Signature
) -> list[Argument]:
    """What a C function is called with, for arrays of these types.

    Args:
        name: The kernel, for errors.
        function: The user's function of the arrays, which returns the arguments.
        argtypes: The ctypes types of the C function's parameters, if they are stated.
        signature: The types of the arrays.

    Raises:
        SignatureError: It fails, returns what is no argument or does not fit a type, or leaves out an output.
    """
    names = dict(enumerate(parameter_names(function)[0]))
    arrays = [Array(names.get(index, f"array {index}"), index, each) for index, each in enumerate(signature.arrays)]
    says = f"{name}: arguments ({place_of(function)})"
    try:
        given = function(*arrays)
    except (BridgeError, Warning):
        raise
    except Exception as error:
        raise SignatureError(
            f"{says} raised {type(error).__name__}: {error}. It gets, for each array, an object with shape, size, ndim "
            "and dtype, and no values."
        ) from error
    if not isinstance(given, tuple | list):
        raise SignatureError(f"{says} returned {given!r}, expected a tuple: what the C function is called with.")
    types = [None] * len(given) if argtypes is None else argtypes
    if len(types) != len(given):
        raise SignatureError(
            f"{says} returned {len(given)} arguments, but argtypes states {len(types)}. Return one for each parameter."
        )
    made = [_argument(f"{says}: argument {at}", *pair) for at, pair in enumerate(zip(given, types, strict=True))]
    passed = {each.value.buffer for each in made if isinstance(each.value, Array)}
    for array in arrays[len(signature.inputs) :]:
        if array.buffer not in passed:
            raise SignatureError(f"{says} leaves out the output {array.name!r}. Pass it, so that it is written.")
    return made


def _argument(where: str, given: Any, ctype: Any) -> Argument:
    stated = None if ctype is None else dtype_of(ctype)
    by_address = is_pointer(ctype)
    if isinstance(given, Array):
        if ctype is not None and not (by_address and (stated is None or stated.name == given.type.dtype)):
            raise SignatureError(
                f"{where} is the {given.type.dtype} array {given.name!r}, but argtypes states {ctype.__name__}. "
                "Convert the array, or state ctypes.c_void_p for a pointer to anything."
            )
        return Argument(given)
    if isinstance(given, bytes):
        if ctype is not None and not (by_address and (stated is None or stated.kind == "S")):
            raise SignatureError(f"{where} is {given!r}, but argtypes states {ctype.__name__}. State ctypes.c_char_p.")
        return Argument(given)
    if not isinstance(given, Size | int | float | np.generic):
        raise SignatureError(
            f"{where} is {given!r} of type {type(given).__name__}, expected an array of the call, its size or an "
            "extent, a number or bytes. Pass what varies as an array."
        )
    if ctype is None:
        stated = np.dtype(np.int64) if isinstance(given, Size) else getattr(given, "dtype", None)
    if stated is None or stated.kind not in "biuf" or stated.name == "float16" or stated.itemsize > 8:
        stating = "It has no C type" if ctype is None else f"argtypes states {ctype.__name__}"
        raise SignatureError(
            f"{where} is {given!r}. {stating}: pass a NumPy scalar, as np.float32(2.5), or state a ctypes number in "
            "argtypes, or a pointer to one."
        )
    if not isinstance(given, Size):
        return Argument(_converted(where, given, stated), stated, by_address)
    if stated.kind not in "iu":
        raise SignatureError(f"{where} is a size, but argtypes states {ctype.__name__}. State a ctypes integer.")
    return Argument(given, stated, by_address)


def _converted(where: str, given: Any, dtype: np.dtype[Any]) -> int | float:
    try:
        value = dtype.type(given)
        if dtype.kind == "f" or value == given:
            return value.item()  # type: ignore[no-any-return]
    except (OverflowError, TypeError, ValueError):
        pass
    raise SignatureError(f"{where} is {given!r}, which {dtype.name} cannot hold. Pass another, or state another type.")
