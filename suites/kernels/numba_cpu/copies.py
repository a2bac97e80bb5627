"""Copies Numba functions with other options, such as checks of indices or without parallel loops."""

from __future__ import annotations

import types
from typing import Any

from numba.core.registry import CPUDispatcher


def with_options(dispatcher: CPUDispatcher, **options: bool) -> CPUDispatcher:
    """Returns a copy of a function that compiles with some options instead of its own.

    The functions that it calls by a name of its module, or of the functions around it, are copied too: Numba would
    otherwise use the code that it has compiled of them already. A function that is reached in another way, such as an
    attribute of a module, keeps its own options.

    Args:
        dispatcher: A function that is decorated with ``numba.njit``. It stays as it is.
        options: Options of ``numba.njit``, such as ``boundscheck=True``.
    """
    return _copied(dispatcher, options, {})


def _copied(dispatcher: CPUDispatcher, options: dict[str, bool], copies: dict[int, CPUDispatcher]) -> CPUDispatcher:
    if id(dispatcher) in copies:
        return copies[id(dispatcher)]
    source = dispatcher.py_func
    names: dict[str, Any] = {}
    cells = tuple(types.CellType() for _ in source.__closure__ or ())
    function = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__, cells)
    for attribute in ("__kwdefaults__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        setattr(function, attribute, getattr(source, attribute))
    copy = CPUDispatcher(
        function,
        locals=dispatcher.locals,
        targetoptions={**dispatcher.targetoptions, **options},
        pipeline_class=dispatcher._compiler.pipeline_class,
    )
    copies[id(dispatcher)] = copy  # before its callees: it may call itself

    def replaced(value: Any) -> Any:
        return _copied(value, options, copies) if isinstance(value, CPUDispatcher) else value

    names.update((name, replaced(value)) for name, value in source.__globals__.items())
    for cell, original in zip(cells, source.__closure__ or (), strict=True):
        try:
            cell.cell_contents = replaced(original.cell_contents)
        except ValueError:  # a name that nothing has been assigned to yet
            continue
    return copy
