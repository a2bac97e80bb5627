"""Declares the libraries that the kernels are timed beside, and a call of one of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from suites.kernels.kernel import Kernel

Prepare = Callable[..., Callable[[], Any]]
"""Takes the inputs as arrays of a library. Returns a function without arguments that computes the results from them."""


@dataclass(frozen=True)
class Library:
    """A library that somebody else wrote.

    Attributes:
        name: Its name.
        module: The name that it is imported by.
        distributions: The distributions that may hold it.
        cure: The command that installs it.
    """

    name: str
    module: str
    distributions: tuple[str, ...]
    cure: str

    def missing(self) -> str | None:
        """Returns why it cannot be called here, with the command that installs it; None if it is installed."""
        return None if _is_there(self.module) else f"{self.name} is not installed: {self.cure}"

    def description(self) -> str:
        """Returns its name and version; the name alone where it is not installed."""
        for distribution in self.distributions:
            try:
                return f"{self.name} {metadata.version(distribution)}"
            except metadata.PackageNotFoundError:
                continue
        return self.name


@functools.cache
def _is_there(module: str) -> bool:
    return find_spec(module) is not None


@dataclass(frozen=True)
class LibraryCall(Kernel):
    """A function of a library that works on its own arrays, outside of XLA's programs.

    It has two steps. The first one brings the inputs into the form that the library wants, such as a sparse matrix over
    three arrays. A user does that once for many calls, so it is not timed. The second step computes.

    Attributes:
        prepare: The first step; it returns the second one.
    """

    prepare: Prepare

    @classmethod
    def accepted(cls, declared: Any) -> LibraryCall | None:
        """Returns an author's function as a call of this library; None if it is no function."""
        if isinstance(declared, Kernel):
            return declared if isinstance(declared, cls) else None
        return cls(declared) if callable(declared) and not isinstance(declared, type) else None

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """A function of JAX arrays, which cannot be traced. It returns a list of results."""
        return self.program()

    def program(self) -> LibraryProgram:
        """Returns the call as a program that can be timed. By default the library works on JAX arrays."""
        return LibraryProgram(self.prepare, _as_it_is, _as_it_is)

    @property
    def custom_calls(self) -> int:
        """XLA does not see it."""
        return 0

    @property
    def returns_list(self) -> bool:
        """The program returns one."""
        return True


class LibraryProgram:
    """Calls a library with JAX arrays.

    Args:
        prepare: The first step of the call.
        borrow: Takes a JAX array. Returns an array of the library over the same memory.
        returned: Takes a result of the library. Returns an object with ``__array__``, whose ``block_until_ready``, if
            it has one, waits until the result is there.
        keeps: Whether the program keeps its preparation for the last inputs, and so the memory of these.
    """

    def __init__(
        self,
        prepare: Prepare,
        borrow: Callable[[Any], Any],
        returned: Callable[[Any], Any],
        *,
        keeps: bool = True,
    ) -> None:
        self._prepare, self._borrow, self._returned, self._keeps = prepare, borrow, returned, keeps
        self._last: tuple[tuple[Any, ...], Callable[[], Any]] = (), _nothing

    def __call__(self, *arrays: Any) -> list[Any]:
        """Makes one call."""
        return self._listed(self._prepared(arrays)())

    def bound(self, *arrays: Any) -> Callable[[], list[Any]]:
        """Takes the first step for these inputs; returns the second one."""
        run = self._prepare(*map(self._borrow, arrays))
        return lambda: self._listed(run())

    def repeated(self, loops: int, arrays: Sequence[Any]) -> list[Any]:
        """Makes calls in a row on the same inputs; returns the results of the last one."""
        run = self._prepared(tuple(arrays))
        result = None
        for _ in range(loops):
            result = None  # frees the memory of the results, for the next ones
            result = run()
        return self._listed(result)

    def _prepared(self, arrays: tuple[Any, ...]) -> Callable[[], Any]:
        last_arrays, run = self._last
        if not last_arrays or any(one is not other for one, other in zip(last_arrays, arrays, strict=True)):
            run = self._prepare(*map(self._borrow, arrays))
            if self._keeps:
                self._last = arrays, run
        return run

    def _listed(self, result: Any) -> list[Any]:
        several = result if isinstance(result, list | tuple) else (result,)
        return [self._returned(each) for each in several]


def _as_it_is(array: Any) -> Any:
    return array


def _nothing() -> None:
    return None
