"""Spans the full matrix of cases: every operator in use, backend, dtype and size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from suites.backends.backend import Backend
from suites.cells import catalogue
from suites.cells.case import Case
from suites.declare.operator import Operator


def backends(operator: Operator, platform: str) -> list[Backend]:
    """Returns the backends of an operator on a platform: the reference and its kernels, or its ``tested`` backends."""
    tested = operator.backends() if operator.tested is None else operator.tested
    return [backend for backend in Backend if platform in backend.platforms and backend in tested]


def peers(operator: Operator, platform: str) -> list[Backend]:
    """Returns the libraries with a function that computes what an operator does, on a platform."""
    return [backend for backend in Backend if platform in backend.platforms and backend in operator.peers]


def grid(
    platform: str,
    sizes: Callable[[Operator], tuple[int, ...]],
    backends_of: Callable[[Operator, str], list[Backend]] = backends,
) -> Iterator[Case]:
    """Yields every backend and dtype of every operator at the sizes that ``sizes`` returns for it.

    The cases of one kernel follow each other, so that it is compiled once.
    """
    for operator in catalogue.operators().values():
        for backend in backends_of(operator, platform):
            for dtype in operator.dtypes:
                for size in sizes(operator):
                    yield Case(operator, backend, dtype, size, platform)
