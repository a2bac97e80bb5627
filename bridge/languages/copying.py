"""Lets users copy and pickle the functions that call kernels, as the calls of the public functions that made them."""

from __future__ import annotations

import functools
import importlib
import pickle
import weakref
from collections.abc import Callable
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def _unchanged(argument: Any) -> Any:
    return argument


def copied_as_a_call(form: Callable[[Any], Any] = _unchanged) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a public function that makes wrappers of kernels.

    A wrapper cannot change, so a deep copy of it is the wrapper itself. A pickle of it holds the arguments of the
    function, which makes the wrapper again where the pickle is loaded.

    Args:
        form: Gives an argument the form in which it is pickled: itself, or a :class:`ByName`.
    """

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(make)
        def made(*args: P.args, **keywords: P.kwargs) -> R:
            wrapper: Any = make(*args, **keywords)
            known = getattr(wrapper, "__dict__", None)  # an old Warp makes wrappers of its own
            if known is not None and "__reduce_ex__" not in known:
                # A weak reference, because a wrapper that refers to itself would not be freed at once.
                known["__deepcopy__"] = functools.partial(_referred, weakref.ref(wrapper))
                known["__reduce_ex__"] = functools.partial(_reduced, made, form, args, keywords)
            return wrapper  # type: ignore[no-any-return]

        return made

    return decorate


def call_of(wrapper: Any) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None:
    """The call of a public function that made a wrapper: the function, its arguments and its keyword arguments.

    None for anything that is not the wrapper of a kernel.
    """
    reduced = getattr(wrapper, "__dict__", {}).get("__reduce_ex__")
    if not isinstance(reduced, functools.partial) or reduced.func is not _reduced:
        return None
    made, _, args, keywords = reduced.args
    return made, tuple(args), dict(keywords)


def _referred(reference: weakref.ref[Any], memo: Any) -> Any:
    return reference()


def _reduced(made: Any, form: Callable[[Any], Any], args: Any, keywords: Any, protocol: int) -> tuple[Any, ...]:
    return _remake, (made, tuple(map(form, args)), {name: form(value) for name, value in keywords.items()})


def _remake(made: Any, args: Any, keywords: Any) -> Any:
    # A shallow copy does not pickle the arguments.
    given = [each.value if isinstance(each, ByName) else each for each in args]
    return made(*given, **{name: each.value if isinstance(each, ByName) else each for name, each in keywords.items()})


class ByName:
    """Pickles an object as the name that it has in its module.

    Args:
        value: The object.
        function: The Python function that it was made from, and whose name it has.
        kind: How errors call such an object.
    """

    def __init__(self, value: Any, function: Callable[..., Any], kind: str):
        self.value = value
        self._place = function.__module__, function.__qualname__
        self._kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        module, name = self._place
        try:
            found = _find(module, name)
        except (ImportError, AttributeError):
            found = None
        if found is not self.value:
            raise pickle.PicklingError(
                f"the {self._kind} {name} cannot be pickled, because {module}.{name} is not this {self._kind}. Define "
                "it at the top level of a module, under its own name."
            )
        return _find, self._place


def _find(module: str, name: str) -> Any:
    return attrgetter(name)(importlib.import_module(module))
