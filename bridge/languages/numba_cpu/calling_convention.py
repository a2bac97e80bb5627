"""Knows how compiled Numba functions take arrays, and the names of the runtime functions that they call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

PARALLEL_FOR = "numba_parallel_for"
"""Runs the body of a parallel loop on the threads of Numba's threading layer."""

THREAD_NUMBER = "get_thread_id"
"""The number of a thread among those that run a parallel loop; sums of a loop are kept by this number."""

GIL_RELEASE = "numba_gil_release"
"""Releases the GIL, after any use of Python in compiled code."""

ENVIRONMENT = "_ZN08NumbaEnv"
"""How the names of the variables begin that hold a function's environment: its Python globals and constants."""

UNRESOLVED = ".numba.unresolved$"
"""How the names of the variables begin that hold the address of a function which calls itself."""

_RESULT_POINTERS = 2  # where the function stores its result, and its exception
_MEMINFO, _PARENT, _ITEM_COUNT, _ITEM_BYTES, _DATA = range(5)
_FIELDS = 5

T = TypeVar("T")


def data_arguments(arguments: Sequence[T], ranks: Sequence[int]) -> list[T]:
    """The arguments of a compiled function, or its parameters, that are the data pointers of its arrays.

    Args:
        arguments: All of them.
        ranks: Rank of each array. The function takes nothing else.
    """
    found, at = [], _RESULT_POINTERS
    for rank in ranks:
        found.append(arguments[at + _DATA])
        at += _FIELDS + 2 * rank  # the fields, then the extents and the strides
    assert at == len(arguments), f"{len(arguments)} arguments for arrays of ranks {ranks}"
    return found
