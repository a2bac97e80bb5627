"""Makes the function that JAX users call, from a kernel of any native language and its outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bridge.debug.checking import kernel_checks
from bridge.debug.mode import kernel_modes
from bridge.errors import SignatureError
from bridge.ffi.kernel_call import Call, bind
from bridge.ffi.native.call_frame import check_count
from bridge.languages.native_code import NativeCode
from bridge.languages.native_language import Definition, NativeLanguage
from bridge.languages.release import kept
from bridge.signature.arguments import Traced, check_arrays, no_keywords, parameter_names
from bridge.signature.array_types import Signature
from bridge.signature.call_options import (
    check_aliased_types,
    check_aliases,
    check_in_place,
    check_in_place_types,
    check_vmap_method,
)
from bridge.signature.outputs import Outputs, OutputsOf, outputs_of
from bridge.source.unwritten import warn_unwritten_outputs


def wrap(
    language: NativeLanguage[Any, Any],
    definition: Definition,
    options: Any,
    outs: Any,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    in_place: bool | None = None,
) -> Callable[..., Any]:
    """A ``jax.jit`` function of the inputs that returns the results that ``outs`` describes.

    Equal arguments give the same function, so wrapping a kernel twice compiles it once.

    Args:
        language: The language of the kernel.
        definition: The kernel, from :data:`bridge.languages.definitions.DEFINITIONS`.
        options: Its options, of the language's ``options_type``.
        outs: Shape and dtype of the results; or a function of the inputs that returns them, called at each trace.
        vmap_method: See :func:`bridge.numba_kernel`.
        input_output_aliases: Pairs of input and output index that share a buffer.
        in_place: See :func:`bridge.numba_kernel`.

    Raises:
        SignatureError: ``outs``, ``vmap_method``, ``input_output_aliases`` or ``in_place`` is malformed.
    """
    outputs = outputs_of(outs, definition.name)
    check_vmap_method(vmap_method, definition.name)
    aliases = check_aliases(input_output_aliases, definition.name)
    check_in_place(in_place, definition.name)
    return _wrapper(language, definition, options, outputs, vmap_method, aliases, in_place)


@kept
def _wrapper(
    language: NativeLanguage[Any, Any],
    definition: Definition,
    options: Any,
    declared: Outputs | OutputsOf,
    vmap_method: str | None,
    aliases: tuple[tuple[int, int], ...],
    in_place: bool | None,
) -> Callable[..., Any]:
    name = definition.name
    writable = frozenset(index for index, _ in aliases)
    parameters, variadic = _input_names(definition, declared)
    codes: dict[NativeCode, NativeCode] = {}  # keeps the machine code while the wrapper lives

    def check(args: Sequence[Any]) -> None:
        check_arrays(args, name, parameters)

    def call(*args: Any, **keywords: Any) -> Any:
        if keywords:
            raise no_keywords(keywords, name, parameters, variadic)
        check(args)
        inputs = [jax.typeof(arg) for arg in args]
        outputs = declared if isinstance(declared, Outputs) else declared(inputs, name)
        _check_counts(definition, len(inputs), len(outputs.specs))
        outputs.check_precision(name)
        check_aliased_types(aliases, inputs, outputs.specs, name)
        check_in_place_types(in_place, inputs, outputs.specs, name)
        signature = Signature.of(name, inputs, outputs.specs, writable, with_extents=language.with_extents)
        language.check(definition, options, signature)
        made_now = NativeCode(language, definition, options, signature)
        code = codes.setdefault(made_now, made_now)
        scratch = tuple(((size,), np.dtype(np.uint8)) for size in code.scratch)  # compiles, if that is done now
        if definition.source_function is not None:
            shapes = [spec.shape for spec in outputs.specs]
            warn_unwritten_outputs(name, definition.source_function, len(inputs), shapes, dict(aliases).values())
        results = tuple((spec.shape, spec.dtype) for spec in outputs.specs)
        # An input that shares its buffer with an output is a copy, unless nothing else uses the input.
        copies = tuple((inputs[index].shape, inputs[index].dtype) for index in code.guarded)
        guards = tuple((index, len(results + scratch) + at) for at, index in enumerate(code.guarded))
        made = Call(
            name,
            code,
            results + scratch + copies,
            aliases + guards,
            vmap_method,
            hidden=len(scratch + copies),
            guards=len(guards),
            checks=kernel_checks(),
            in_place=in_place,
        )
        arrays = bind(made, *args)
        return outputs.unflatten(arrays[: len(results)])

    wrapper = jax.jit(Traced(call, name, parameters, check, variadic, definition.function.__doc__))
    kernel_modes.add_wrapper(wrapper)
    return wrapper


def _input_names(definition: Definition, declared: Outputs | OutputsOf) -> tuple[list[str], bool]:
    """Names of the inputs, and whether there may be more of them."""
    names, variadic = parameter_names(definition.function)
    if isinstance(declared, Outputs):
        return names[: max(0, len(names) - len(declared.specs))], variadic
    own, any_number = parameter_names(declared.function)
    return (names, True) if any_number else (names[: len(own)], variadic)


def _check_counts(definition: Definition, input_count: int, output_count: int) -> None:
    """Compares the number of arrays with the number of the kernel's parameters.

    Raises:
        SignatureError: There are too many or too few.
    """
    parameters = inspect.signature(definition.function).parameters
    variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters.values())
    required = sum(
        parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        for parameter in parameters.values()
    )
    given = input_count + output_count
    if given < required or (given > len(parameters) and not variadic):
        raise SignatureError(
            f"{definition.name}({', '.join(parameters)}) got {input_count} inputs and has {output_count} outputs "
            f"declared in outs, {given} arrays in all, expected {required if given < required else len(parameters)}. "
            "Pass one array for each input, and declare one output in outs for each output parameter."
        )
    check_count(definition.name, given)
