"""Makes the function that users of Warp call: of arrays, and of values that are compiled into the call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax

from bridge.errors import SignatureError
from bridge.languages.release import PROGRAMS_KEPT
from bridge.languages.warp.settings import configured
from bridge.languages.warp.wrapper_options import StaticValue, WrapperOptions
from bridge.signature.arguments import positional

Program = Callable[..., list[jax.Array]]


def warp_wrapper(
    options: WrapperOptions,
    named: Sequence[str],
    program_of: Callable[[WrapperOptions, tuple[StaticValue, ...]], Program],
    version: Callable[[], Any],
) -> Callable[..., list[jax.Array]]:
    """A function of the parameters that are passed. It keeps the programs of its latest values, options and settings.

    Args:
        options: The kernel, or what stands for it, and how it is launched.
        named: The options that a call may override.
        program_of: The call with these options and values, as a ``jax.jit`` function of its arrays.
        version: What else a program depends on, besides ``warp.config``. Each eager call asks.
    """
    kernel, passed, name = options.kernel, options.passed, options.kernel.key
    values = [(index, parameter) for index, parameter in enumerate(passed) if not parameter.is_array]
    arrays = [index for index, parameter in enumerate(passed) if parameter.is_array]

    @functools.lru_cache(PROGRAMS_KEPT)
    def program(statics: tuple[StaticValue, ...], own: WrapperOptions | None, *settings: Any) -> Program:
        return program_of(own or options, statics)

    def call(*args: Any, **given: Any) -> list[jax.Array]:
        own = options.override(given, named) if given else None
        if len(args) != len(passed):
            raise SignatureError(
                f"{name} got {len(args)} arguments, expected {len(passed)}: "
                f"{', '.join(parameter.name for parameter in passed)}. Outputs are not passed."
            )
        if not values:  # an eager call takes a few microseconds, of which the other way is one
            return program((), own, version(), configured())(*args)
        statics = tuple([StaticValue.of(args[index], kernel, parameter) for index, parameter in values])
        return program(statics, own, version(), configured())(*[args[index] for index in arrays])

    keywords = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=None) for each in named]
    signature = inspect.Signature([*positional([parameter.name for parameter in passed]), *keywords])
    return _Wrapper(call, name, kernel.func, signature)


class _Wrapper(functools.partial[Any]):
    """The function that users get, with the name, docstring and signature of its kernel, and a short text.

    Args:
        call: The function.
        name: The kernel.
        function: Has its docstring and module.
        signature: Its signature.
    """

    def __new__(
        cls, call: Callable[..., Any], name: str, function: Callable[..., Any], signature: inspect.Signature
    ) -> _Wrapper:
        self = super().__new__(cls, call)
        of = {"__module__": function.__module__, "__doc__": function.__doc__}
        vars(self).update(of, __name__=name, __qualname__=name, __signature__=signature)
        return self

    def __repr__(self) -> str:
        return f"<kernel {vars(self)['__name__']}{vars(self)['__signature__']}>"
