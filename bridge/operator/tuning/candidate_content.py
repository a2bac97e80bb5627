"""Computes digests of generators and parameters, which tell candidates apart in all processes."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Iterable
from typing import Any

import jax

from bridge.operator.tuning.toolchain import Toolchain
from bridge.source.content import PROCESS_LOCAL, ContentWalk

_KNOWN_BY_NAME = frozenset({"bridge", "jax", "jaxlib", "numpy", *sys.stdlib_module_names})


def content_of(value: Any, toolchain: Toolchain) -> str:
    """A digest of values and functions, like :func:`bridge.source.content.function_digest`.

    Functions of libraries count by name, because generators call far more of them than kernels do. The versions of the
    libraries are part of every winner.
    """
    walk = _CandidateWalk(toolchain)
    walk.feed(value)
    digest = walk.sha.hexdigest()
    return digest if walk.portable else f"{PROCESS_LOCAL}-{digest}"


class _CandidateWalk(ContentWalk):
    def __init__(self, toolchain: Toolchain) -> None:
        super().__init__()
        self._digest = toolchain.digest
        self._known = _KNOWN_BY_NAME | toolchain.modules

    def _feed_object(self, value: Any) -> None:
        if self._is_known_by_name(value):
            self._tag("library", value.__module__, value.__qualname__)
        elif isinstance(value, functools.partial):
            self._sequence("partial", (value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            self._sequence("method", (value.__func__, value.__self__))
        elif isinstance(value, jax.ShapeDtypeStruct):
            self._sequence("spec", (value.shape, value.dtype))
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
            self._sequence(f"{type(value).__module__}.{type(value).__qualname__}", fields)
        elif (digest := self._digest(value)) is not None:
            self._tag("kernel", digest)
        elif _is_wrapper(value):
            self._sequence("wrapper", (type(value).__qualname__, value.__wrapped__))
        else:
            super()._feed_object(value)

    def _module_attributes(self, module: types.ModuleType, names: Iterable[str]) -> None:
        if module.__name__.partition(".")[0] not in self._known:
            super()._module_attributes(module, names)

    def _is_known_by_name(self, value: Any) -> bool:
        """Whether a library has this function under its name. Functions that it makes at run time do not count."""
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if not callable(value) or not isinstance(module, str) or not isinstance(name, str):
            return False
        if module.partition(".")[0] not in self._known:
            return False
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        return found is value


def _is_wrapper(value: Any) -> bool:
    """Whether ``jax.jit``, ``functools.cache`` or a similar function made it from another function."""
    wrapped = getattr(value, "__wrapped__", None)
    return (
        isinstance(wrapped, types.FunctionType)
        and not isinstance(value, types.FunctionType)
        and not hasattr(value, "py_func")
    )
