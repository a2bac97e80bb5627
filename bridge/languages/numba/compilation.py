"""Compiles Numba CPU kernels for the types of a call; errors name the kernel and its line."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.core.registry import CPUDispatcher, cpu_target
from numba.np.numpy_support import from_dtype

from bridge.compat.numba import again, takes_new_types
from bridge.debug.mode import checks_bounds
from bridge.errors import KernelCompileError
from bridge.kernel.arguments import ArrayType
from bridge.kernel.language import Definition
from bridge.kernel.refused import refused


@dataclass(frozen=True, eq=False)
class NumbaDefinition(Definition):
    """A function that is decorated with ``numba.njit``.

    Attributes:
        dispatcher: Numba's dispatcher, which the decorator made.
    """

    dispatcher: CPUDispatcher = field(repr=False)
    _overloads: list[dict[Any, Any]] = field(default_factory=lambda: [{}], init=False, repr=False)

    @classmethod
    def of(cls, dispatcher: CPUDispatcher) -> NumbaDefinition:
        function = dispatcher.py_func
        return cls(function.__name__, function, function, dispatcher)

    def recompilations(self) -> int:
        """How often ``dispatcher.recompile`` has replaced machine code, as far as the bridge has seen.

        Numba freezes globals when it compiles, and this method of the dispatcher is how a user has them read again.
        """
        now, known = dict(self.dispatcher.overloads), self._overloads[-1]
        if any(now.get(types) is not compiled for types, compiled in known.items()):
            self._overloads.append(now)
        else:
            self._overloads[-1] = known | now  # a new one: another thread may be reading the old one
        return len(self._overloads) - 1


_HALVES = ("float16", "bfloat16")


def numba_type(array: ArrayType) -> types.Array:
    """Numba's type of a C-contiguous array."""
    return types.Array(_item_type(array.dtype), array.rank, "C", readonly=not array.writable)


def _item_type(dtype: str) -> types.Type:
    if dtype in _HALVES:
        from bridge.languages.numba.half_precision import BFLOAT16, FLOAT16  # registers them with Numba

        return BFLOAT16 if dtype == "bfloat16" else FLOAT16
    return from_dtype(np.dtype(dtype))


def compile_kernel(definition: NumbaDefinition, array_types: tuple[types.Array, ...]) -> Any:
    """Numba's ``CompileResult`` of a kernel.

    Args:
        definition: The kernel.
        array_types: Types of its arguments.

    Raises:
        KernelCompileError: Numba refuses the kernel for these types, or it returns a value.
    """
    _check_declared(definition, array_types)
    dispatcher = _with_parameters(definition, len(array_types))
    try:
        compiled = _compiled(dispatcher, array_types)
    except Warning:
        raise  # the user has made it an error
    except Exception as error:
        raise refused(definition, array_types, error) from error
    if compiled.objectmode:
        raise KernelCompileError(f"{definition.name} compiles in object mode, which needs Python. Use numba.njit.")
    if compiled.signature.return_type != types.none:
        raise KernelCompileError(
            f"{definition.name} returns {compiled.signature.return_type}, expected no return value. "
            "Add an output parameter after the inputs, and write out[...] = ... instead."
        )
    return compiled


def _compiled(dispatcher: CPUDispatcher, array_types: tuple[types.Array, ...]) -> Any:
    try:
        if not any(array.dtype.name in _HALVES for array in array_types):
            dispatcher.compile(array_types)
            return dispatcher.overloads[array_types]
    except NotImplementedError as error:
        if str(error) != "float16":  # the kernel has no such array, but uses np.float16
            raise
    from bridge.languages.numba.half_precision import known_to_numba

    with known_to_numba():
        dispatcher.compile(array_types)
    return dispatcher.overloads[array_types]


def _check_declared(definition: NumbaDefinition, array_types: tuple[types.Array, ...]) -> None:
    """Raises KernelCompileError if a kernel with explicit signatures has none for these types."""
    if takes_new_types(definition.dispatcher):
        return
    declared = [signature.args for signature in definition.dispatcher.nopython_signatures]
    writable = [types.Array(array.dtype, array.ndim, "C") for array in array_types]
    for signature in declared:
        if len(signature) == len(writable) and all(
            given.can_convert_to(cpu_target.typing_context, wanted) is not None
            for given, wanted in zip(writable, signature, strict=True)
        ):
            return
    raise KernelCompileError(
        f"{definition.name} is declared for {'; '.join(map(_listed, declared))}, but was called with "
        f"{_listed(writable)}. Convert the arguments, or declare this signature too."
    )


def _with_parameters(definition: NumbaDefinition, count: int) -> CPUDispatcher:
    """A dispatcher of ``count`` positional parameters; Numba fills in the kernel's defaults and ``*args``."""
    dispatcher = _compilable(definition)
    parameters = inspect.signature(definition.function).parameters.values()
    plain = all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in parameters)
    if plain and len(parameters) == count:
        return dispatcher
    names = ", ".join(f"array{index}" for index in range(count))
    namespace: dict[str, Any] = {"dispatcher": dispatcher}
    exec(f"def call({names}): return dispatcher({names})", namespace)
    call = namespace["call"]
    call.__name__ = call.__qualname__ = definition.name  # it may be no identifier: a lambda has no name
    return numba.njit(call)


def _compilable(definition: NumbaDefinition) -> CPUDispatcher:
    """A dispatcher that takes read-only arrays: the user's own where possible, which shares its compile cache."""
    dispatcher = definition.dispatcher
    options = {**dispatcher.targetoptions, "boundscheck": True} if checks_bounds() else dispatcher.targetoptions
    own = takes_new_types(dispatcher) and options == dispatcher.targetoptions
    return dispatcher if own else again(dispatcher, options)


def _listed(array_types: Iterable[types.Type]) -> str:
    return f"({', '.join(map(str, array_types))})"
