"""Refuses a selection before anything is started for it: unknown names, no device, contradicting operators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from suites.cells import catalogue
from suites.cells.catalogue import CatalogueError
from suites.cells.runnable import require_device, require_known_names
from suites.cells.selection import Selection, SelectionError


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turns what is wrong with a selection, in a pytest session, into an error of its usage: one line, no traceback."""
    try:
        yield
    except (SelectionError, CatalogueError) as error:
        raise pytest.UsageError(str(error)) from error


def use_operators(sources: Sequence[str]) -> None:
    """Loads the operators of a pytest session; a source that is at fault is an error of its usage."""
    with usage_errors():
        catalogue.use(sources)


def require_sound(selection: Selection) -> None:
    """Loads the operators of a selection, and requires that they can be tested and that its names exist.

    Raises:
        SelectionError: A source, a name, the device or an operator is at fault; the message says which.
    """
    catalogue.use(selection.sources)
    require_known_names(selection)
    require_device(selection)
    catalogue.check(selection.device, selection.operators)
