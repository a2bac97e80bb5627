"""Makes the function that users of Warp call: of arrays, and of values that are compiled into the call."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from bridge.errors import SignatureError
from bridge.kernel.arguments import check_arrays, positional, with_names
from bridge.kernel.definitions import PROGRAMS_KEPT, shared
from bridge.languages.warp.settings import configured
from bridge.languages.warp.wrapper_options import StaticValue, WrapperOptions

Program = Callable[..., list[jax.Array]]


def program(options: WrapperOptions, key: tuple[Any, ...], call: Program) -> Program:
    """A function of arrays as a ``jax.jit`` function; the same for equal options and keys, so that it compiles once.

    Args:
        options: The kernel, or what stands for it, and how it is launched.
        key: What else decides what the function does.
        call: The function.
    """
    name, names = options.kernel.key, [parameter.name for parameter in options.passed if parameter.is_array]
    check = functools.partial(check_arrays, name=name, parameters=names)

    def checked(*arrays: Any) -> list[jax.Array]:
        check(arrays)
        return call(*arrays)

    return shared((options.key, *key), lambda: jax.jit(with_names(checked, name, names)))


def warp_wrapper(
    options: WrapperOptions,
    named: Sequence[str],
    program_of: Callable[[WrapperOptions, tuple[StaticValue, ...]], Program],
    module: Any,
    key: tuple[Any, ...],
    **attributes: Any,
) -> Callable[..., list[jax.Array]]:
    """A function of the parameters that are passed. It keeps the programs of its latest values, options and settings.

    Args:
        options: The kernel, or what stands for it, and how it is launched.
        named: The options that a call may override.
        program_of: The call with these options and values, as a ``jax.jit`` function of its arrays.
        module: Has ``hashers``, which another object replaces when Warp's module changes.
        key: What else decides what the function does. Equal options, keys and attributes give the same function.
        **attributes: Attributes of the function, which are hashable.
    """
    make = functools.partial(_make_wrapper, options, named, program_of, module, attributes)
    return shared((options.key, *key, *attributes.items()), make)


def _make_wrapper(
    options: WrapperOptions,
    named: Sequence[str],
    program_of: Callable[[WrapperOptions, tuple[StaticValue, ...]], Program],
    module: Any,
    attributes: Mapping[str, Any],
) -> Callable[..., list[jax.Array]]:
    kernel, passed, name = options.kernel, options.passed, options.kernel.key
    values = [(index, parameter) for index, parameter in enumerate(passed) if not parameter.is_array]
    arrays = [index for index, parameter in enumerate(passed) if parameter.is_array]

    programs, lock = dict[Any, Program](), threading.RLock()
    usual: Any = None, None, None  # of the latest call without values and options: hashers, settings and program

    def call(*args: Any, **given: Any) -> list[jax.Array]:
        nonlocal usual
        hashers, config, program = usual
        # JAX itself takes a few microseconds for a call, so this is the shortest way for the commonest one.
        if not given and module.hashers is hashers and configured() == config and len(args) == len(arrays):
            return program(*args)  # type: ignore[no-any-return]
        own = options.override(given, named) if given else options
        if len(args) != len(passed):
            raise SignatureError(
                f"{name} got {len(args)} arguments, expected {len(passed)}: "
                f"{', '.join(parameter.name for parameter in passed)}. Outputs are not passed."
            )
        hashers, config = module.hashers, configured()
        statics = tuple([StaticValue.of(args[index], kernel, parameter) for index, parameter in values])
        key = statics, config, own if given else None
        with lock:
            if usual[0] is not hashers:
                programs.clear()
                usual = hashers, None, None
            program = programs.get(key)
            if program is None:
                if len(programs) >= PROGRAMS_KEPT:
                    del programs[next(iter(programs))]
                program = programs[key] = program_of(own, statics)
            if not given and not values:
                usual = hashers, config, program
        return program(*[args[index] for index in arrays])

    keywords = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=None) for each in named]
    signature = inspect.Signature([*positional([parameter.name for parameter in passed]), *keywords])
    wrapper, of = _Wrapper(call), {**attributes, "__module__": kernel.func.__module__, "__doc__": kernel.func.__doc__}
    vars(wrapper).update(of, __name__=name, __qualname__=name, __signature__=signature)
    return wrapper


class _Wrapper(functools.partial[Any]):
    """The function that users get, with a short text."""

    def __repr__(self) -> str:
        return f"<kernel {vars(self)['__name__']}{vars(self)['__signature__']}>"
