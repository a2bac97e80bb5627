"""Registers the Hypothesis profile of the checks that draw their inputs, and leaves the default profile alone."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType

OWN = ("bridge", "reports", "suites")
"""The packages of this project."""

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


def draw_no_constants_of(names: Iterable[str]) -> None:
    """Keeps Hypothesis from drawing constants that it finds in the source of these modules.

    Hypothesis reads each module outside of site-packages. That is good for a user's operators. But it also reads a
    clone of this project, and libraries in a plain folder: this takes seconds in each process, and the inputs depend on
    where the modules are. Hypothesis has no setting for it, only a list of the modules that it has read. If a version
    has no such list, it reads these modules.

    Args:
        names: Names of imported modules; others are ignored.
    """
    from hypothesis.internal.conjecture import providers  # late, as above

    seen = getattr(providers, "_seen_modules", None)
    if isinstance(seen, set):
        modules = [sys.modules[name] for name in names if name in sys.modules]
        seen.update(map(id, modules))
        seen.update(module for module in modules if type(module) is ModuleType)  # the list of Hypothesis 6.136


def draw_no_own_constants() -> None:
    """Keeps Hypothesis from drawing constants in the source of this project's modules that are imported by now."""
    draw_no_constants_of([name for name in list(sys.modules) if name.partition(".")[0] in OWN])
