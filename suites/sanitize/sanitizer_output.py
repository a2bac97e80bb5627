"""Reads what NVIDIA's compute-sanitizer prints, and maps each finding to the cell that ran when it was printed.

Every line of the tool begins with ``=========``. A finding is one line and the indented lines below it. The process
under test prints a line when a cell begins, and one when it has ended, both after the GPU has finished its work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

TOOLS = {
    "memcheck": "accesses outside of an allocation",
    "racecheck": "threads of a block that do not wait for each other's shared memory",
    "initcheck": "reads of memory that nothing has written",
    "synccheck": "barriers that some threads do not reach",
}
"""The tools of compute-sanitizer, and what each finds."""

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
_KERNEL = re.compile(r"\b(?:at|in) (?:0x[0-9a-f]+ in )?(?:\S*:\d+:)?(?:void )?([A-Za-z_$][^\s+(]*)(?:\+0x|\()")


@dataclass(frozen=True)
class SanitizerFinding:
    """One finding of a tool.

    Attributes:
        what: Its first line, such as ``Invalid __global__ read of size 4 bytes``.
        kernel: The function of the kernel, as the compiler named it; empty if the tool does not say.
        cell: Id of the cell that ran; None outside of cells.
        count: How often it came, in all threads.
    """

    what: str
    kernel: str
    cell: str | None
    count: int = 1

    def __str__(self) -> str:
        """Says it in one line."""
        where = f" in {self.kernel}" if self.kernel else ""
        return f"{self.what}{where}{f' ({self.count} times)' if self.count > 1 else ''}"


@dataclass
class ToolReport:
    """What one tool has said.

    Attributes:
        tool: One of :data:`TOOLS`.
        findings: Its findings; equal ones of one cell are counted.
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
            return f"{self.tool} said {self.unknown[0]!r}, which is no finding that this version knows"
        return None


def read_output(tool: str, lines: Iterable[str]) -> ToolReport:
    """Reads the output of one tool.

    Args:
        tool: One of :data:`TOOLS`.
        lines: What the tool and the process under test printed, in order.
    """
    report = ToolReport(tool)
    counts: dict[tuple[str, str, str | None], int] = {}
    cell: str | None = None
    block: list[str] = []

    def close() -> None:
        if block:
            found = _KERNEL.search(" ".join(block))
            key = (block[0].strip().removeprefix("Error: "), found[1] if found else "", cell)
            counts[key] = counts.get(key, 0) + 1
            block.clear()

    for line in lines:
        mark = _MARK_LINE.search(line)
        if mark is not None:
            close()
            kind, text = mark[1], json.loads(mark[2])
            if kind == "begin":
                cell = text
            elif cell is not None:
                if kind == "end":
                    report.done.append(cell)
                else:
                    report.failed[cell] = text
                cell = None
            continue
        own = _TOOL_LINE.match(line.rstrip("\r\n"))
        if own is None:
            continue
        text = own[1] or ""
        report.begun |= "COMPUTE-SANITIZER" in text
        report.ended |= _SUMMARY.match(text) is not None
        if text.startswith(" ") and block:
            block.append(text)
        elif _FINDING.match(text):
            close()
            block.append(text)
        else:
            close()
            if not text.startswith(" ") and not _HARMLESS.match(text):
                report.unknown.append(text)
    close()
    report.findings = [SanitizerFinding(*key, count) for key, count in counts.items()]
    return report
