"""Lists survivors that somebody has read, each with the reason why it is no fault.

A mutant belongs here only if no caller can tell it from the right kernel within the documented error, at any size and
on any machine. A fault that the checks cannot see does not belong here: it is a survivor.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reviewed:
    """Mutants that are no faults.

    Attributes:
        module: The last part of the name of the module.
        kind: The kind of the fault.
        after: The code that replaces the right one, as the name of a mutant ends.
        why: Why nobody can tell the difference.
    """

    module: str
    kind: str
    after: str
    why: str


REVIEWED: tuple[Reviewed, ...] = ()
"""All of them."""


def why_no_fault(name: str) -> str | None:
    """Returns why a mutant is no fault; None if nobody has said so.

    Args:
        name: The name of the mutant, see :attr:`suites.mutation.mutated.Mutant.name`.
    """
    module, _, _, kind, _, after = name.split(":", 5)
    return next((each.why for each in REVIEWED if (each.module, each.kind, each.after) == (module, kind, after)), None)
