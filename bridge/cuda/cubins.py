"""Serves the languages whose compilers make a cubin of a kernel for each chip."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
import msgspec
import numpy as np

from bridge.cuda.carried_cubins import Cubin, cubins_of, load_cubin, loaded
from bridge.cuda.launch_shape import LaunchShape, check_covers
from bridge.errors import BridgeError, KernelCompileError, SignatureError
from bridge.ffi.native.abi import WORD_BYTES
from bridge.kernel.arguments import ArrayType, Signature, with_names
from bridge.kernel.language import Compiled, Definition, NativeLanguage

ALIGNMENT = 16
"""Bytes of which the address of an array is a multiple if its size is: compilers then move as many at once."""


class Launched(msgspec.Struct, frozen=True):
    """Options that say how a kernel is launched.

    Attributes:
        shape: Grid, block and shared memory; of programs (Triton) and tiles (cuTile) the grid.
        alignment: Bytes of which the address of each array must be a multiple, where the user asks for it.
    """

    shape: LaunchShape
    alignment: int = 1

    def alignments(self, signature: Signature) -> tuple[int, ...]:
        """The alignment of each array of a call, for :class:`~bridge.ffi.plans.device.DevicePlan`."""
        return (self.alignment,) * len(signature.arrays) if self.alignment > 1 else ()


class Number(NamedTuple):
    """A number that a kernel takes.

    Attributes:
        name: The parameter.
        dtype: Name of its dtype.
        word: Its memory, as an integer.
        is_divisible: Whether it is an integer that 16 divides.
    """

    name: str
    dtype: str
    word: int
    is_divisible: bool

    @classmethod
    def of(cls, parameter: str, value: Any) -> Number:
        """A NumPy scalar."""
        word = int.from_bytes(value.tobytes().ljust(WORD_BYTES, b"\0"), "little", signed=True)
        return cls(parameter, value.dtype.name, word, value.dtype.kind in "iu" and int(value) % ALIGNMENT == 0)

    @property
    def size(self) -> int:
        """Bytes of it."""
        return jnp.dtype(self.dtype).itemsize


DefinitionT = TypeVar("DefinitionT", bound=Definition)
LaunchedT = TypeVar("LaunchedT", bound=Launched)


class CubinLanguage(NativeLanguage[DefinitionT, LaunchedT]):
    """A language whose kernels are compiled for each chip."""

    def check(self, definition: DefinitionT, options: LaunchedT, signature: Signature) -> None:
        """Refuses a launch of nothing, too."""
        super().check(definition, options, signature)
        check_covers(definition.name, options.shape, signature.outputs)

    def compiled(
        self,
        definition: DefinitionT,
        options: LaunchedT,
        code: str | None,
        cubin: Callable[[int], Cubin],
        alignments: Sequence[int],
        scratch: tuple[int, ...] = (),
        load: Callable[[Cubin, int], int] = load_cubin,
    ) -> Compiled:
        """What :meth:`compile` returns for a code that identifies a kernel, and its cubin by compute capability."""
        cubin_for, is_empty = functools.cache(self.refusing(definition)(cubin)), options.shape.is_empty
        return Compiled(
            code,
            lambda: loaded(cubin_for, is_empty, alignments, definition, load),
            scratch,
            carry=lambda: cubins_of(cubin_for, is_empty, alignments),
        )

    @contextlib.contextmanager
    def refusing(self, definition: DefinitionT) -> Iterator[None]:
        """Names the kernel in errors of the compiler."""
        try:
            yield
        except BridgeError:
            raise
        except Exception as error:
            cause = error  # Triton chains an error for each function on the way, and the last one has the reason
            while isinstance(cause.__cause__, type(error)):
                cause = cause.__cause__
            what = f"{self.compiler} cannot compile {definition.name}:\n{str(cause) or repr(cause)}"
            raise KernelCompileError(what) from error


def alignment_of(array: ArrayType) -> int:
    """Bytes of which the address of an array, and of each element of its batch, is a multiple."""
    size = math.prod(array.extents) * array.item_bytes
    return ALIGNMENT if size and size % ALIGNMENT == 0 else 1


def check_values(name: str, parameters: Sequence[str], needed: Sequence[str], given: Mapping[str, Any]) -> None:
    """Compares the values that a user passes by name with the parameters of a kernel.

    Raises:
        SignatureError: There is no such parameter, or a needed value is missing.
    """
    unknown = [each for each in given if each not in parameters]
    missing = [each for each in needed if each not in given]
    if unknown or missing:
        what = f"has no parameter {unknown[0]!r}" if unknown else f"got no value for {missing[0]!r}"
        raise SignatureError(
            f"{name}({', '.join(parameters)}) {what}. Pass a value by name for each parameter that is no array."
        )


def number(
    name: str, parameter: str, value: Any, dtypes: Sequence[str], constant: str, asked: str | None = None
) -> Number:
    """The number that a kernel takes for a value: an int of 32 or 64 bits, a float32, or a NumPy scalar as it is.

    Args:
        name: The kernel, for errors.
        parameter: The parameter.
        value: What the user passes.
        dtypes: Names of the dtypes that the compiler has.
        constant: The annotation of a parameter that takes any value, for errors.
        asked: The dtype that the parameter is annotated with, if it is.

    Raises:
        SignatureError: It is no number, or one that the compiler or this dtype does not have.
    """
    typed: Any = value
    if asked is None and isinstance(value, int | float) and not isinstance(value, np.generic):
        as_int = "int32" if -(2**31) <= value < 2**31 else "int64"
        asked = "bool" if isinstance(value, bool) else "float32" if isinstance(value, float) else as_int
    if asked is not None and isinstance(value, int | float | np.generic):
        typed = None
        with contextlib.suppress(OverflowError, TypeError, ValueError), np.errstate(over="ignore"):
            cast = jnp.dtype(asked).type(value)
            typed = None if cast.item() != value and (cast.dtype.kind in "biu" or np.isinf(cast)) else cast  # rounded
    if not isinstance(typed, np.generic) or typed.dtype.name not in dtypes:
        raise SignatureError(
            f"{name}: {parameter} is {value!r} of type {type(value).__name__}, expected a number or a NumPy scalar"
            f"{f' that fits {asked}' if asked else ''}. "
            f"Pass what varies as an array, and annotate other values with {constant}."
        )
    return Number.of(parameter, typed)


def of_arrays(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., None]:
    """A function with these parameters, which are arrays, and the docstring of ``function``."""
    return with_names(lambda *arrays: None, function.__name__, names, kernel=function)
