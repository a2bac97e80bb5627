"""Lets pickle take kernels of other libraries by their names: :func:`sent_by_name`."""

from __future__ import annotations

import contextlib
import copyreg
import pkgutil
from collections.abc import Callable
from typing import Any

from bridge.errors import KernelTypeError


def sent_by_name(kind: type, function_of: Callable[[Any], Any], has_content: bool = False) -> None:
    """Makes pickle and deepcopy take the kernels of a language by the names of their functions, as they take functions.

    ``copy.copy``, with which Warp makes overloads, still makes another kernel.

    Args:
        kind: The language's type of kernels.
        function_of: The Python function of a kernel.
        has_content: Whether a kernel that no other process finds by its name can be pickled as any object can.
    """

    def reduced(kernel: Any) -> Any:
        function, found = function_of(kernel), None
        place = f"{function.__module__}:{function.__qualname__}"
        with contextlib.suppress(ImportError, AttributeError, ValueError):
            found = pkgutil.resolve_name(place)
        if found is kernel and function.__module__ != "__main__":
            return pkgutil.resolve_name, (place,)
        if has_content:
            return object.__reduce_ex__(kernel, 4)
        raise KernelTypeError(
            f"the kernel {place} cannot be sent to another process, which cannot import it by this name. Define it at "
            "the top level of a module."
        )

    def copied(kernel: Any) -> Any:
        other: Any = object.__new__(kind)
        vars(other).update(vars(kernel))
        return other

    copyreg.pickle(kind, reduced)
    kind.__copy__ = copied  # type: ignore[attr-defined]
