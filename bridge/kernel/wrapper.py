"""Makes the function that JAX users call, from a kernel of any native language and its outputs."""

from __future__ import annotations

import dis
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NoReturn, ParamSpec

import jax

from bridge.debug.checking import kernel_checks
from bridge.errors import KernelCompileError, KernelTypeError, SignatureError
from bridge.ffi.kernel_call import bind
from bridge.ffi.native.addresses import check_count
from bridge.kernel.arguments import (
    Outputs,
    OutputsOf,
    check_aliased_types,
    check_aliases,
    check_arrays,
    check_vmap_method,
    no_keywords,
    outputs_of,
    parameter_names,
    with_names,
)
from bridge.kernel.definitions import KernelCall, shared
from bridge.kernel.language import Definition, NativeLanguage
from bridge.kernel.references import key_of_function

P = ParamSpec("P")


def says_its_call(make: Callable[P, Callable[..., Any]], is_sent: bool = True) -> Callable[P, Callable[..., Any]]:
    """Decorates a public function that makes wrappers: they get an attribute ``made_by``.

    It is the call that made the wrapper first: the function, its arguments and its keyword arguments. A wrapper is
    pickled and copied as this call, which finds the wrapper that exists in a process, or makes it.

    Args:
        make: The function.
        is_sent: Whether another process can make its wrappers; if not, its kernels are addresses of this process.
    """

    @functools.wraps(make)
    def made(*args: P.args, **keywords: P.kwargs) -> Callable[..., Any]:
        wrapper, again = make(*args, **keywords), (functools.partial if is_sent else _Here)(made, *args, **keywords)
        if "made_by" not in (own := vars(wrapper)):  # methods of the object: it is a function of JAX's type
            own |= {"__reduce_ex__": lambda protocol: (again, ()), "__deepcopy__": lambda memo: again()}
            own["made_by"] = made, args, keywords
        return wrapper

    return made


class _Here(functools.partial[Any]):
    """A call that no other process can make."""

    def __reduce__(self) -> NoReturn:
        name = self.func.__name__
        raise KernelTypeError(
            f"{name} cannot send {self.args[:1]} to another process, which has it at another address. Load the library "
            f"and call {name} there, in the function that is sent."
        )


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
        definition: The kernel, from :data:`bridge.kernel.definitions.DEFINITIONS`.
        options: Its options, of the language's ``options_type``.
        outs: Shape and dtype of the results; or a function of the inputs that returns them, called at each trace.
        vmap_method: See :func:`bridge.numba_kernel`.
        input_output_aliases: Pairs of input and output index that share a buffer.
        has_side_effect: Run the kernel even if nothing uses its results.

    Raises:
        SignatureError: ``outs``, ``vmap_method`` or ``input_output_aliases`` is malformed.
    """
    name = definition.name
    declared = outputs_of(outs, name)
    check_vmap_method(vmap_method, name)
    aliases = check_aliases(input_output_aliases, name)
    parameters, variadic = _input_names(definition, declared)

    def call(*args: Any, **keywords: Any) -> Any:
        if keywords:
            raise no_keywords(keywords, name, parameters, variadic)
        check_arrays(args, name, parameters)
        inputs = [jax.typeof(arg) for arg in args]
        outputs = declared if isinstance(declared, Outputs) else declared(inputs, name)
        _check_counts(definition, len(inputs), len(outputs.specs))
        outputs.check_precision(name)
        check_aliased_types(aliases, inputs, outputs.specs, name)
        how = dict[str, Any](vmap_method=vmap_method, has_side_effect=bool(has_side_effect), checks=kernel_checks())
        made = KernelCall.of(language, definition, options, inputs, outputs.specs, aliases, **how)
        made = made.with_hidden_outputs(inputs)
        if not has_side_effect:
            _check_stores(definition, made, len(inputs))
        results = bind(made, *args)
        return outputs.unflatten(results[: len(outputs.specs)])

    outputs_key = declared if isinstance(declared, Outputs) else key_of_function(declared.function)
    key = id(definition), options, outputs_key, vmap_method, aliases, bool(has_side_effect)
    traced = with_names(call, name, parameters, variadic=variadic, kernel=definition.function)
    return shared(key, lambda: jax.jit(traced))


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
    signature, given = inspect.signature(definition.function), input_count + output_count
    try:
        signature.bind(*range(given))
    except TypeError as error:
        raise SignatureError(
            f"{definition.name}({', '.join(signature.parameters)}) got {input_count} inputs and has {output_count} "
            f"outputs declared in outs, {given} arrays in all: {error}. Pass one array for each input, and declare one "
            "output in outs for each output parameter. A kernel returns nothing: it has a parameter for each output, "
            "after the inputs, and writes to it, as out[i] = x[i]."
        ) from None
    check_count(definition.name, given)


def _check_stores(definition: Definition, call: KernelCall, inputs: int) -> None:
    """Raises KernelCompileError if a kernel in Python never uses an output, whose memory may hold anything."""
    if (function := definition.source_function) is None:
        return
    aliased = {output for _, output in call.aliases}
    names = function.__code__.co_varnames[inputs : function.__code__.co_argcount]
    for index, (name, (shape, _)) in enumerate(zip(names, call.used, strict=False)):
        if index not in aliased and 0 not in shape and _is_unused(function, name):
            raise KernelCompileError(
                f"{definition.name} ({definition.place}) never stores to its output {name!r}: write {name}[...] = "
                f"value, where {name} = value gives the name to another array; or leave the output out of outs."
            )


def _is_unused(function: FunctionType, parameter: str) -> bool:
    """Whether a function never loads what it gets for a parameter: at all, or before it replaces it in any case.

    A function that raises an exception in any case needs no outputs.
    """
    code, always = function.__code__, not function.__code__.co_exceptiontable
    for each in dis.get_instructions(code):
        always = always and each.opcode not in dis.hasjrel
        if always and each.opname == "RAISE_VARARGS":
            return False
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        for use, name in zip(_USE.findall(each.opname), names, strict=False):
            if name == parameter and (use == "LOAD" or always):
                return bool(use == "STORE")
    return parameter not in code.co_cellvars


_USE = re.compile(r"(LOAD|STORE)_FAST")
