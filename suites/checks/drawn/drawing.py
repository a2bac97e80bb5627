"""Runs the body of a check on inputs that Hypothesis draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from suites.checks.drawn.drawn_profile import HYPOTHESIS_PROFILE, draw_no_own_constants
from suites.checks.drawn.session_seed import session_seed


def for_drawn(body: Callable[[Any], None], *, share: int = 1) -> None:
    """Calls ``body`` with Hypothesis's ``data`` for each example of the session's profile.

    The profile is read when the check runs, because a session may change it after this file was imported.

    Args:
        body: Draws inputs and checks them.
        share: Divides the number of examples, for a body whose examples take long.
    """
    draw_no_own_constants()  # those that were imported since
    profile = settings.get_profile(HYPOTHESIS_PROFILE)
    few = settings(
        profile,
        max_examples=max(1, profile.max_examples // share),
        suppress_health_check=[HealthCheck.too_slow],
    )
    drawn = few(given(st.data())(body))
    (drawn if few.derandomize else seed(session_seed())(drawn))()
