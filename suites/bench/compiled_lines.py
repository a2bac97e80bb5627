"""Picks the lines of a compiled program that show what ran: the calls of kernels."""

from __future__ import annotations

MOST_LINES = 8
MOST_CHARACTERS = 300

_CALL = "custom-call("
_ENTRY = "ENTRY "


def compiled_lines(program: str) -> list[str]:
    """Returns the calls of kernels in a program; for one without any, the instructions of its main computation.

    At most :data:`MOST_LINES` lines are taken, each of at most :data:`MOST_CHARACTERS` characters. What is left out is
    replaced by an ellipsis.

    Args:
        program: The text of a compiled program, in XLA's language HLO.
    """
    lines = [line.strip() for line in program.splitlines()]
    found = [line for line in lines if _CALL in line]
    if not found:
        begin = next((place + 1 for place, line in enumerate(lines) if line.startswith(_ENTRY)), 0)
        found = [line for line in lines[begin:] if line and line != "}"]
    shown = [line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…" for line in found[:MOST_LINES]]
    return [*shown, "…"] if len(found) > MOST_LINES else shown
