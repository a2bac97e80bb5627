"""Refuses a selection before anything is started for it: unknown names, no device, contradicting operators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from suites.cells import catalogue
from suites.cells.catalogue import CatalogueError
from suites.cells.grid import missing_device
from suites.cells.runnable import require_known_names
from suites.cells.selection import Selection, SelectionError


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turns errors in the selection of a pytest session into usage errors: one line, no traceback."""
    try:
        yield
    except (SelectionError, CatalogueError) as error:
        raise pytest.UsageError(str(error)) from error


def use_operators(sources: Sequence[str]) -> None:
    """Loads the operators of a pytest session; an error in a source is a usage error."""
    with usage_errors():
        catalogue.use(sources)


def require_sound(selection: Selection) -> None:
    """Loads the operators of a selection, and requires that its names exist and that its operators are consistent.

    Raises:
        SelectionError: An error in a source, a name, the device or an operator; the message says which.
    """
    catalogue.use(selection.sources)
    require_known_names(selection)
    if missing := missing_device(selection.device):
        raise SelectionError(missing)
    catalogue.check(selection.device, selection.operators)
