"""Registers the Hypothesis profile of the checks that draw their inputs, and leaves the default profile alone."""

from __future__ import annotations

HYPOTHESIS_PROFILE = "kernel-bridge"
"""The name of the profile."""

EXAMPLES = 10
"""Inputs that are drawn for one check unless ``--kb-examples`` asks for another number."""


DEEP_EXAMPLES = 100
"""Inputs that are drawn in the deep profile, other ones each time."""


def register_profile(examples: int | None = None, *, deep: bool = False) -> None:
    """Registers the profile: :data:`EXAMPLES` inputs, the same each time; or ``examples`` random ones."""
    examples = examples or (DEEP_EXAMPLES if deep else None)
    from hypothesis import settings  # late: importing it takes longer than the pytest plugin may

    settings.register_profile(
        HYPOTHESIS_PROFILE,
        max_examples=examples or EXAMPLES,
        derandomize=not examples,
        database=None,
        deadline=None,
    )
