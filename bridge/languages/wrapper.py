"""From a kernel of any language and its outputs to a function that JAX users call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Protocol

import jax
import numpy as np

from bridge.debug.checking import kernel_checks
from bridge.debug.mode import kernel_modes
from bridge.errors import SignatureError
from bridge.ffi.kernel_call import Call, Code, bind
from bridge.ffi.native.frame import check_count
from bridge.ffi.target import Target
from bridge.signature.arguments import Traced, check_arrays, no_keywords, parameter_names
from bridge.signature.outputs import (
    Outputs,
    OutputsOf,
    check_aliased_types,
    check_aliases,
    check_vmap_method,
    outputs_of,
)
from bridge.source.unwritten import warn_unwritten_outputs

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

    @property
    def source_function(self) -> FunctionType | None:
        """The Python function that is to write to the outputs; None if it is in another language."""

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

    Args:
        kernel: What to call.
        outs: Shape and dtype of the results; or a function of the inputs that returns them, called at each trace.
        vmap_method: See :func:`bridge.numba_kernel`.
        input_output_aliases: Pairs of input and output index that share a buffer.

    Raises:
        SignatureError: ``outs``, ``vmap_method`` or ``input_output_aliases`` is malformed.
    """
    outputs = outputs_of(outs, kernel.name)
    check_vmap_method(vmap_method, kernel.name)
    return _wrapper(kernel, outputs, vmap_method, check_aliases(input_output_aliases, kernel.name))


@functools.lru_cache(maxsize=_WRAPPERS_KEPT)
def _wrapper(
    kernel: Kernel, declared: Outputs | OutputsOf, vmap_method: str | None, aliases: tuple[tuple[int, int], ...]
) -> Callable[..., Any]:
    writable = frozenset(index for index, _ in aliases)
    names, variadic = _input_names(kernel, declared)

    def check(args: Sequence[Any]) -> None:
        check_arrays(args, kernel.name, names)

    def call(*args: Any, **keywords: Any) -> Any:
        if keywords:
            raise no_keywords(keywords, kernel.name, names, variadic)
        check(args)
        inputs = [jax.typeof(arg) for arg in args]
        outputs = declared if isinstance(declared, Outputs) else declared(inputs, kernel.name)
        _check_counts(kernel, len(inputs), len(outputs.specs))
        outputs.check_precision(kernel.name)
        check_aliased_types(aliases, inputs, outputs.specs, kernel.name)
        code = kernel.code(inputs, outputs.specs, writable)
        source: Any = kernel.source_function
        if source is not None:
            shapes = [spec.shape for spec in outputs.specs]
            warn_unwritten_outputs(kernel.name, source, len(inputs), shapes, dict(aliases).values())
        results = tuple((spec.shape, spec.dtype) for spec in outputs.specs)
        scratch = tuple(((size,), np.dtype(np.uint8)) for size in code.scratch)
        made = Call(kernel.name, code, results + scratch, aliases, vmap_method, checks=kernel_checks())
        arrays = bind(made, *args)
        return outputs.unflatten(arrays[: len(results)])

    wrapper = jax.jit(Traced(call, kernel.name, names, check, variadic, kernel.function.__doc__))
    kernel_modes.add_wrapper(wrapper)
    return wrapper


def _input_names(kernel: Kernel, declared: Outputs | OutputsOf) -> tuple[list[str], bool]:
    """What the kernel calls its inputs, and whether there may be more of them."""
    names, variadic = parameter_names(kernel.function)
    if isinstance(declared, Outputs):
        return names[: max(0, len(names) - len(declared.specs))], variadic
    own, any_number = parameter_names(declared.function)
    return (names, True) if any_number else (names[: len(own)], variadic)


def forget_wrappers() -> None:
    """Drops the wrappers kept for reuse; those the caller holds go on working."""
    _wrapper.cache_clear()


def _check_counts(kernel: Kernel, input_count: int, output_count: int) -> None:
    """Holds the number of arrays to the kernel's parameters.

    Raises:
        SignatureError: There are too many or too few.
    """
    parameters = inspect.signature(kernel.function).parameters
    variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters.values())
    required = sum(
        parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        for parameter in parameters.values()
    )
    given = input_count + output_count
    if given < required or (given > len(parameters) and not variadic):
        raise SignatureError(
            f"{kernel.name}({', '.join(parameters)}) got {input_count} inputs and has {output_count} outputs declared "
            f"in outs, {given} arrays in all, expected {required if given < required else len(parameters)}. Pass one "
            "array for each input, and declare one output in outs for each output parameter."
        )
    check_count(kernel.name, given)
