"""Tells pytest, and the command that started the session, why a session cannot run."""

from __future__ import annotations

import contextlib

import pytest


def refusal(reason: str) -> pytest.UsageError:
    """Returns the error to raise, after telling the command."""
    with contextlib.suppress(ImportError):  # a package that is missing may be the reason
        from suites.sessions.events import Conductor, Refused

        conductor = Conductor.of_environment()
        if conductor is not None:
            conductor.send(Refused(reason))
    return pytest.UsageError(reason)
