"""A run of the benchmark as plain data: every sample, what could not be measured and why, and where it ran."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from suites.dispatch.targets import Spread, Target, ratios

SCHEMA = 1
"""Version of the JSON's layout."""


class Status(StrEnum):
    """How a path came out; a time exists only for one that passed."""

    PASSED = "PASSED"
    WRONG_VALUE = "WRONG_VALUE"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True)
class PathRecord:
    """One row of the report; ``reason`` says why it did not pass."""

    name: str
    title: str
    status: Status
    reason: str = ""


@dataclass(frozen=True)
class Cell:
    """One path in one mode.

    Attributes:
        iterations: Iterations of one measurement.
        calls: Calls of the path in one iteration.
        samples_ns: Nanoseconds per call; entry ``r`` was taken in round ``r``.
    """

    iterations: int
    calls: int
    samples_ns: list[float]


@dataclass(frozen=True)
class ModeRecord:
    """One column of the report; ``reference`` is the path its ratios divide by."""

    name: str
    title: str
    reference: str


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        platform: ``cpu`` or ``cuda``.
        started: ISO 8601, UTC.
        elements: Float32 elements of each array.
        rounds: Samples of each cell.
        sample_ms: Milliseconds that one measurement was meant to take.
        seed: Of the order in which the cells take turns.
        host: The machine, by property.
        versions: Library and compiler versions, by name.
        modes: In the order they are shown.
        paths: In the order they are shown.
        cells: By mode, then by path.
        targets: The bar.
    """

    platform: str
    started: str
    elements: int
    rounds: int
    sample_ms: float
    seed: int
    host: dict[str, str]
    versions: dict[str, str]
    modes: list[ModeRecord]
    paths: list[PathRecord]
    cells: dict[str, dict[str, Cell]]
    targets: list[Target] = field(default_factory=list)

    def time_us(self, mode: str, path: str) -> Spread | None:
        """Microseconds per call; None if the cell was not measured."""
        cell = self.cells.get(mode, {}).get(path)
        return Spread.of([sample / 1000 for sample in cell.samples_ns]) if cell else None

    def ratio(self, mode: str, path: str, reference: str) -> Spread | None:
        """The spread of the rounds' ratios of two paths; None if one of them was not measured."""
        cells = self.cells.get(mode, {})
        if path not in cells or reference not in cells:
            return None
        return Spread.of(ratios(cells[path].samples_ns, cells[reference].samples_ns))

    def to_json(self) -> str:
        """The run with its evaluated targets, as an indented JSON object with every list of numbers on one line."""
        document: dict[str, Any] = {"schema": SCHEMA, "benchmark": "dispatch", **asdict(self)}
        document["targets"] = [self._judged(target) for target in self.targets]
        lists: list[str] = []
        for cells in document["cells"].values():
            for cell in cells.values():
                lists.append(json.dumps([round(sample, 2) for sample in cell["samples_ns"]]))
                cell["samples_ns"] = f"<{len(lists) - 1}>"
        text = json.dumps(document, indent=1)
        for index, numbers in enumerate(lists):
            text = text.replace(f'"<{index}>"', numbers)
        return text + "\n"

    def _judged(self, target: Target) -> dict[str, Any]:
        ratio = self.ratio(target.mode, target.path, target.reference)
        return asdict(target) | {
            "text": str(target),
            "ratio": asdict(ratio) if ratio else None,
            "verdict": target.verdict(ratio),
        }


def exit_code(paths: Sequence[PathRecord], required: str) -> int:
    """0 when every path passed or was skipped, 1 after a wrong result, 3 when the required path or any other failed.

    Timing plays no part: performance targets are reported, not asserted.
    """
    if any(path.status is Status.WRONG_VALUE for path in paths):
        return 1
    passed = any(path.name == required and path.status is Status.PASSED for path in paths)
    return 0 if passed and all(path.status is not Status.RUNTIME_ERROR for path in paths) else 3
