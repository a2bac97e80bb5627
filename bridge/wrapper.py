"""From a kernel of any language and its outputs to a function that JAX users call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from bridge.errors import SignatureError
from bridge.ffi.call import Call, Code, bind
from bridge.ffi.frame import check_count
from bridge.ffi.target import Target
from bridge.signature import Outputs, check_aliased_types, check_aliases, check_vmap_method

_WRAPPERS_KEPT = 4096


class Kernel(Protocol):
    """A kernel with all its options but the types of a call. Hashable; equal where the compiled code is the same."""

    @property
    def name(self) -> str:
        """Names the kernel in errors."""

    @property
    def target(self) -> Target:
        """The FFI target that runs it."""

    @property
    def function(self) -> Callable[..., Any]:
        """The Python function that the user wrote."""

    def code(self, inputs: Sequence[Any], outputs: Sequence[Any], writable: frozenset[int]) -> Code:
        """The kernel for inputs and outputs of these shapes and dtypes, compiled now or when it is lowered.

        It may write to the inputs whose indices are in ``writable``.
        """

    def __hash__(self) -> int:
        """The wrappers that exist are found by their kernels."""


def wrap(
    kernel: Kernel, outs: Any, vmap_method: str | None, input_output_aliases: Mapping[int, int] | None
) -> Callable[..., Any]:
    """A ``jax.jit`` function of the inputs that returns what ``outs`` describes.

    Equal kernels with equal options get the same function, so that wrapping again compiles nothing again.

    Raises:
        SignatureError: ``outs``, ``vmap_method`` or ``input_output_aliases`` is malformed.
    """
    outputs = Outputs.of(outs, kernel.name)
    check_vmap_method(vmap_method, kernel.name)
    return _wrapper(kernel, outputs, vmap_method, check_aliases(input_output_aliases, kernel.name))


@functools.lru_cache(maxsize=_WRAPPERS_KEPT)
def _wrapper(
    kernel: Kernel, outputs: Outputs, vmap_method: str | None, aliases: tuple[tuple[int, int], ...]
) -> Callable[..., Any]:
    results = tuple((spec.shape, spec.dtype) for spec in outputs.specs)
    writable = frozenset(index for index, _ in aliases)

    def call(*args: Any) -> Any:
        inputs = _check_inputs(kernel, args, len(results))
        outputs.check_precision(kernel.name)
        check_aliased_types(aliases, inputs, outputs.specs, kernel.name)
        code = kernel.code(inputs, outputs.specs, writable)
        scratch = tuple(((size,), np.dtype(np.uint8)) for size in code.scratch)
        arrays = bind(Call(kernel.name, code, results + scratch, aliases, vmap_method), *args)
        return outputs.unflatten(arrays[: len(results)])

    call.__name__ = call.__qualname__ = kernel.name
    call.__doc__ = kernel.function.__doc__
    return jax.jit(call)


def forget_wrappers() -> None:
    """Drops the wrappers kept for reuse; those the caller holds go on working."""
    _wrapper.cache_clear()


def _check_inputs(kernel: Kernel, args: tuple[Any, ...], output_count: int) -> list[Any]:
    """Shapes and dtypes of the arguments of a call.

    Raises:
        SignatureError: An argument is no array, or there are too many or too few.
    """
    for index, arg in enumerate(args):
        if not (hasattr(arg, "shape") and hasattr(arg, "dtype")):
            raise SignatureError(
                f"{kernel.name}: argument {index} is a {type(arg).__name__}, expected an array. "
                "Pass each array as an argument of its own."
            )
    parameters = inspect.signature(kernel.function).parameters
    variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters.values())
    required = sum(
        parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        for parameter in parameters.values()
    )
    given = len(args) + output_count
    if given < required or (given > len(parameters) and not variadic):
        raise SignatureError(
            f"{kernel.name}({', '.join(parameters)}) got {len(args)} inputs and has {output_count} outputs declared in "
            f"outs, {given} arrays in all, expected {required if given < required else len(parameters)}. Pass one "
            "array for each input, and declare one output in outs for each output parameter."
        )
    check_count(kernel.name, given)
    return [jax.typeof(arg) for arg in args]
