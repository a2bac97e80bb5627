"""Reads the output of NVIDIA's compute-sanitizer, and assigns each finding to the cell that ran when it was printed.

Every line of the tool begins with ``=========``. A finding is one line and the indented lines below it. The process
under test prints a line when a cell begins, and one when it has ended, both after the GPU has finished its work.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

TOOLS = {
    "memcheck": "accesses outside of an allocation",
    "racecheck": "threads of a block that do not wait for each other's shared memory",
    "initcheck": "reads of memory that nothing has written",
    "synccheck": "barriers that some threads do not reach",
}
"""The tools of compute-sanitizer, and the errors that each finds."""

MARK = "kernel-bridge-sanitize"
"""Begins the lines of the process under test: the word, ``begin``, ``end`` or ``failed``, and a JSON text."""

_TOOL_LINE = re.compile(r"=========(?: (.*))?$")
_MARK_LINE = re.compile(rf"{MARK} (begin|end|failed) (.*)$")

_FINDING = re.compile(
    r"Invalid __|Invalid \w+ (?:read|write|access)|Misaligned|Uninitialized|Error: (?:Potential )?(?:RAW|WAR|WAW|Race)|"
    r"Barrier error|Stack overflow|Illegal|Out-of-range|Warp assert|Device assert|Host API (?:uninitialized )?memory|"
    r"Divergent|Malloc/Free|Invalid (?:pointer|cuda|barrier|arguments)|Hardware|Lane",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|Warning: |INFO|Target application returned|"
    r"This tool|Saved|\d+ errors were skipped|No CUDA-MEMCHECK|Program hit|$"
)
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY")


@dataclass(frozen=True)
class SanitizerFinding:
    """One finding of a tool.

    Attributes:
        what: The first line of the finding, such as ``Invalid __global__ read of size 4 bytes``.
        cell: Id of the cell that ran; None outside of cells.
        count: How often it was printed, for all threads.
    """

    what: str
    cell: str | None
    count: int = 1

    def __str__(self) -> str:
        """Returns one line."""
        return f"{self.what}{f' ({self.count} times)' if self.count > 1 else ''}"


@dataclass
class ToolReport:
    """The output of one tool.

    Attributes:
        tool: One of :data:`TOOLS`.
        findings: Its findings; equal ones of one cell are one, with a count.
        done: Ids of the cells that ended.
        failed: Cells that raised an exception, with its text.
        unknown: Lines of the tool that are neither findings nor known to be harmless.
        begun: Whether the tool said that it runs.
        ended: Whether it printed its summary.
    """

    tool: str
    findings: list[SanitizerFinding] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    begun: bool = False
    ended: bool = False

    @property
    def incomplete(self) -> str | None:
        """Why the tool has not checked every cell; None if it has."""
        if not self.begun:
            return f"{self.tool} did not start"
        if not self.done:
            return f"{self.tool} checked no cell"
        if not self.ended:
            return f"{self.tool} ended without its summary, after {len(self.done)} cells"
        if self.failed:
            name, why = next(iter(self.failed.items()))
            return f"{self.tool}: {len(self.failed)} cells did not run; {name}: {why}"
        if self.unknown:
            return f"{self.tool} printed {self.unknown[0]!r}, which this version does not know"
        return None


def read_output(tool: str, lines: Iterable[str]) -> ToolReport:
    """Reads the output of one tool.

    Args:
        tool: One of :data:`TOOLS`.
        lines: The output of the tool and of the process under test, in order.
    """
    report = ToolReport(tool)
    counts: Counter[tuple[str, str | None]] = Counter()
    cell: str | None = None
    for line in lines:
        mark = _MARK_LINE.search(line)
        own = _TOOL_LINE.match(line.rstrip("\r\n"))
        if mark is not None:
            kind, text = mark[1], json.loads(mark[2])
            if kind == "begin":
                cell = text
            elif cell is not None:
                if kind == "end":
                    report.done.append(cell)
                else:
                    report.failed[cell] = text
                cell = None
        elif own is not None and not (own[1] or "").startswith(" "):
            text = own[1] or ""
            report.begun |= "COMPUTE-SANITIZER" in text
            report.ended |= _SUMMARY.match(text) is not None
            if _FINDING.match(text):
                counts[text.strip().removeprefix("Error: "), cell] += 1
            elif not _HARMLESS.match(text):
                report.unknown.append(text)
    report.findings = [SanitizerFinding(*key, count) for key, count in counts.items()]
    return report
