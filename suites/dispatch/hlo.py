"""Finds the instructions in compiled HLO text, and those that its loops run."""

from __future__ import annotations

import re

_HEADER = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_REFERENCE = re.compile(r"\b(?:body|condition|calls|to_apply)=%?([\w.\-]+)")
_REFERENCES = re.compile(r"\b(?:called_computations|branch_computations)=\{([^}]*)\}")
_LOOP_BODY = re.compile(r"\bwhile\(.*\bbody=%?([\w.\-]+)")


def computations(text: str) -> dict[str, list[str]]:
    """Returns the instruction lines of each computation of a module, by name."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            current = found.setdefault(header[1], [])
        elif line == "}":
            current = None
        elif current is not None:
            current.append(line)
    return found


def loop_instructions(text: str) -> list[str]:
    """Returns the instructions in the bodies of all ``while`` loops, and in the computations that they call."""
    known = computations(text)
    pending = [name for lines in known.values() for line in lines for name in _LOOP_BODY.findall(line)]
    seen: set[str] = set()
    instructions: list[str] = []
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for line in known.get(name, []):
            instructions.append(line)
            pending += _REFERENCE.findall(line)
            for names in _REFERENCES.findall(line):
                pending += re.findall(r"[\w.\-]+", names)
    return instructions


def count_in_loops(text: str, marker: str) -> int:
    """Returns how many instructions in loops match the regular expression ``marker``."""
    return sum(re.search(marker, line) is not None for line in loop_instructions(text))


def count(text: str, marker: str) -> int:
    """Returns how many instructions of the module match the regular expression ``marker``."""
    return sum(re.search(marker, line) is not None for lines in computations(text).values() for line in lines)
