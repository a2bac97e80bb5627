"""Makes the function that JAX users call, from a kernel of any native language and its outputs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec

import jax

from bridge.debug.checking import kernel_checks
from bridge.errors import SignatureError
from bridge.ffi.kernel_call import bind
from bridge.ffi.native.call_frame import check_count
from bridge.languages.definitions import KernelCall
from bridge.languages.language import Definition, NativeLanguage
from bridge.languages.release import shared
from bridge.signature.arguments import (
    Traced,
    check_aliased_types,
    check_aliases,
    check_arrays,
    check_vmap_method,
    no_keywords,
    parameter_names,
)
from bridge.signature.array_types import Outputs, OutputsOf, Signature, outputs_of

P = ParamSpec("P")


def says_its_call(make: Callable[P, Callable[..., Any]]) -> Callable[P, Callable[..., Any]]:
    """Decorates a public function that makes wrappers: they get an attribute ``made_by``.

    It is the call that made the wrapper first: the function, its arguments and its keyword arguments.
    """

    @functools.wraps(make)
    def made(*args: P.args, **keywords: P.kwargs) -> Callable[..., Any]:
        wrapper = make(*args, **keywords)
        vars(wrapper).setdefault("made_by", (made, args, keywords))
        return wrapper

    return made


def wrap(
    language: NativeLanguage[Any, Any],
    definition: Definition,
    options: Any,
    outs: Any,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
) -> Callable[..., Any]:
    """A ``jax.jit`` function of the inputs that returns the results that ``outs`` describes.

    Equal arguments give the same function while it lives, so wrapping a kernel twice compiles it once.

    Args:
        language: The language of the kernel.
        definition: The kernel, from :data:`bridge.languages.definitions.DEFINITIONS`.
        options: Its options, of the language's ``options_type``.
        outs: Shape and dtype of the results; or a function of the inputs that returns them, called at each trace.
        vmap_method: See :func:`bridge.numba_kernel`.
        input_output_aliases: Pairs of input and output index that share a buffer.
        has_side_effect: Run the kernel even if nothing uses its results.

    Raises:
        SignatureError: ``outs``, ``vmap_method`` or ``input_output_aliases`` is malformed.
    """
    outputs = outputs_of(outs, definition.name)
    check_vmap_method(vmap_method, definition.name)
    aliases = check_aliases(input_output_aliases, definition.name)
    keeps, key = bool(has_side_effect), outputs.key
    return shared(
        (id(definition), options, key, vmap_method, aliases, keeps),
        lambda: _wrapper(language, definition, options, outputs, vmap_method, aliases, keeps),
    )


def _wrapper(
    language: NativeLanguage[Any, Any],
    definition: Definition,
    options: Any,
    declared: Outputs | OutputsOf,
    vmap_method: str | None,
    aliases: tuple[tuple[int, int], ...],
    has_side_effect: bool,
) -> Callable[..., Any]:
    name = definition.name
    writable = frozenset(index for index, _ in aliases)
    parameters, variadic = _input_names(definition, declared)

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
        signature = Signature.of(name, inputs, outputs.specs, writable, with_extents=language.with_extents)
        language.check(definition, options, signature)
        made = KernelCall(
            name,
            tuple((spec.shape, spec.dtype) for spec in outputs.specs),
            aliases,
            vmap_method,
            has_side_effect,
            checks=kernel_checks(),
            language=language,
            definition=definition,
            options=options,
            signature=signature,
            settings=language.settings(definition),
        )
        results = bind(made.with_hidden_outputs(inputs), *args)
        return outputs.unflatten(results[: len(outputs.specs)])

    wrapper = jax.jit(Traced(call, name, parameters, check, variadic, definition.function.__doc__))
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
            "Pass one array for each input, and declare one output in outs for each output parameter. A kernel returns "
            "nothing: it has a parameter for each output, after the inputs, and writes to it, as out[i] = x[i]."
        )
    check_count(definition.name, given)
