"""Refuses a selection before anything is started for it: unknown names, no device, contradicting operators."""

from __future__ import annotations

import pytest

from suites.cells import catalogue
from suites.cells.catalogue import CatalogueError
from suites.cells.runnable import require_device, require_known_names
from suites.cells.selection import Selection, SelectionError
from suites.checks.limitations import require_known_checks
from suites.sessions.refusal import refusal
from suites.sessions.untouched import remember, require_untouched
from suites.sessions.variables import require_known_variables


def use_operators(config: pytest.Config) -> None:
    """Loads the operators of a pytest session.

    Raises:
        pytest.UsageError: A source is at fault; the message says how.
    """
    remember()
    try:
        catalogue.use(config.option.kb_operators)
        require_untouched()
    except CatalogueError as error:
        raise refusal(str(error)) from error


def require_variables() -> None:
    """Requires, in a pytest session, that the environment variables of this project are known.

    Raises:
        pytest.UsageError: One is not.
    """
    try:
        require_known_variables()
    except SelectionError as error:
        raise refusal(str(error)) from error


def require_names(selection: Selection) -> None:
    """Requires, in a pytest session, that the names of a selection exist.

    Raises:
        pytest.UsageError: One does not.
    """
    try:
        require_known_names(selection)
    except SelectionError as error:
        raise refusal(str(error)) from error


def require_sound(selection: Selection) -> None:
    """Loads the operators of a selection, and requires that they can be tested and that its names exist.

    Raises:
        SelectionError: A source, a name, a limitation, the device or an operator is at fault; the message says which.
    """
    remember()
    catalogue.use(selection.sources)
    require_untouched()
    require_known_names(selection)
    require_known_checks(catalogue.operators().values())
    require_device(selection)
    catalogue.check(selection.device)
