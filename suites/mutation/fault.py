"""Describes one small fault in a source text."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

KINDS = {
    "bound": "a loop or a slice begins one later, or ends one earlier or later",
    "tail": "the incomplete last part is left out",
    "compare": "a comparison also takes its bound, or no longer does, or is reversed",
    "guard": "a condition is always true, or never",
    "logic": "`and` is `or`, a negation is missing",
    "constant": "a number is one more or less, or 1% larger",
    "initial": "a sum or a maximum starts at another value",
    "arithmetic": "another operator",
    "operands": "the operands are swapped",
    "minmax": "the smaller value instead of the larger one",
    "call": "a function is left out, such as an absolute value",
    "index": "the neighbouring element",
    "axis": "another axis, or another coordinate of a thread",
    "statement": "a statement is missing",
    "sync": "a barrier is missing",
    "atomic": "an atomic update is an ordinary one",
    "narrow": "a narrower type",
    "exit": "a `return`, `break` or `continue` is missing",
}
"""The kinds of faults, each in a few words."""


@dataclass(frozen=True)
class Fault:
    """One change of a source text.

    Attributes:
        kind: One of :data:`KINDS`.
        line: The line that it begins in, from 1.
        start: Where the replaced text begins, in bytes of UTF-8.
        end: Where it ends.
        text: What replaces it.
        before: The replaced code in one line.
        after: The code that replaces it, in one line.
        in_kernel: Whether it is in code that the kernel language compiles, and not in Python that launches it.
    """

    kind: str
    line: int
    start: int
    end: int
    text: str
    before: str
    after: str
    in_kernel: bool = True

    def applied(self, source: str) -> str:
        """Returns the source with the fault."""
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()

    def diff(self, source: str) -> str:
        """Returns the changed lines, the old ones after ``-`` and the new ones after ``+``."""
        lines = difflib.unified_diff(source.splitlines(), self.applied(source).splitlines(), n=0, lineterm="")
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))
