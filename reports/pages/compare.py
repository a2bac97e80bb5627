"""Compares two runs, cell by cell."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from reports.records.cell import Cell, CellKey
from reports.records.header import Run
from reports.records.record import Record, last_by_cell
from reports.records.status import Status


class Verdict(StrEnum):
    """The verdict on one cell of two runs."""

    COMPARED = "COMPARED"
    NEW = "NEW"
    MISSING = "MISSING"
    NOT_COMPARABLE = "NOT_COMPARABLE"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One cell in both runs.

    Attributes:
        cell: The cell, from head if head has it.
        verdict: The verdict.
        reason: Why the times were not compared; None for COMPARED.
        base_ns: Median of base, ns per call; None where base did not pass.
        head_ns: Median of head, likewise.
        ratio: `head_ns / base_ns` for COMPARED, else None. Above 1 means that head is slower.
        base_status: How base ended; None where it has no such cell.
        head_status: How head ended, likewise.
    """

    cell: Cell
    verdict: Verdict
    reason: str | None = None
    base_ns: float | None = None
    head_ns: float | None = None
    ratio: float | None = None
    base_status: Status | None = None
    head_status: Status | None = None


@dataclass(frozen=True, slots=True)
class GeometricMean:
    """A geometric mean of ratios.

    Attributes:
        mean: The mean; None without any ratio.
        count: The number of ratios.
        losses: The number of ratios above 1.
    """

    mean: float | None
    count: int
    losses: int


def compare(base: Iterable[Record], head: Iterable[Record]) -> list[Comparison]:
    """Returns one comparison per cell, first for the cells of head in their order, then for those that only base has.

    Each side is one run. The last record of a cell counts. Two cells are a pair if they are equal in everything except
    the operator's version. A cell that was skipped on one side counts as absent there: it is MISSING or NEW. A cell
    that was skipped on both sides is NOT_COMPARABLE.
    """
    base_by_cell = _by_cell(base)
    head_by_cell = _by_cell(head)
    keys = dict.fromkeys([*head_by_cell, *base_by_cell])
    return [_compare_cell(base_by_cell.get(key), head_by_cell.get(key)) for key in keys]


def geometric_mean(ratios: Iterable[float | None]) -> GeometricMean:
    """Returns the geometric mean of the ratios. It ignores None and NaN."""
    known = [ratio for ratio in ratios if ratio is not None and not math.isnan(ratio)]
    mean = math.exp(math.fsum(math.log(ratio) for ratio in known) / len(known)) if known else None
    return GeometricMean(mean, len(known), sum(ratio > 1 for ratio in known))


def header_differences(base: Run, head: Run) -> list[str]:
    """Returns the differences that make times of two runs incomparable: device, host, threads and flags."""
    facts: list[tuple[str, Any, Any]] = [
        ("platform", base.device.platform, head.device.platform),
        ("device kind", base.device.kind, head.device.kind),
        ("device uuid", base.device.uuid, head.device.uuid),
        ("host cpu", base.host.cpu, head.host.cpu),
        ("affinity", base.host.affinity, head.host.affinity),
    ]
    facts += _entries("threads", base.host.threads, head.host.threads)
    flags = [{name: value for name, value in run.flags.items() if name != "session_seed"} for run in (base, head)]
    facts += _entries("flag", *flags)
    return _different(facts)


def _by_cell(records: Iterable[Record]) -> dict[CellKey, Record]:
    return {msgspec.structs.replace(record.cell, operator_version=0).key: record for record in last_by_cell(records)}


def _compare_cell(base: Record | None, head: Record | None) -> Comparison:
    known = head or base
    assert known is not None
    verdict, reason = _judge(base, head)
    base_ns, head_ns = _median(base), _median(head)
    ratio = None
    if verdict is Verdict.COMPARED and base_ns is not None and head_ns is not None:
        ratio = head_ns / base_ns
    return Comparison(
        cell=known.cell,
        verdict=verdict,
        reason=reason,
        base_ns=base_ns,
        head_ns=head_ns,
        ratio=ratio,
        base_status=None if base is None else base.status,
        head_status=None if head is None else head.status,
    )


def _judge(base: Record | None, head: Record | None) -> tuple[Verdict, str | None]:
    failures: dict[str, list[str]] = {}
    for side, record in (("base", base), ("head", head)):
        if record is not None and record.status.failed:
            failures.setdefault(f"{record.status}: {record.reason}", []).append(side)
    if failures:
        return Verdict.WRONG, "; ".join(f"{' and '.join(sides)} {text}" for text, sides in failures.items())
    if base is None or (base.status is Status.SKIPPED and _passed(head)):
        return Verdict.NEW, _absence("base", base)
    if head is None or (head.status is Status.SKIPPED and _passed(base)):
        return Verdict.MISSING, _absence("head", head)
    if base.status is Status.SKIPPED:
        return Verdict.NOT_COMPARABLE, f"skipped on both sides: {head.reason}"
    if base.timing is None or head.timing is None:
        untimed = [side for side, record in (("base", base), ("head", head)) if record.timing is None]
        return Verdict.NOT_COMPARABLE, f"not timed: {' and '.join(untimed)}"
    differences = header_differences(base.run, head.run) + _different(
        [
            ("operator version", base.cell.operator_version, head.cell.operator_version),
            ("timing method", base.timing.method, head.timing.method),
            ("cache", base.timing.cache, head.timing.cache),
            ("shapes", base.shapes, head.shapes),
            ("dtypes", base.dtypes, head.dtypes),
            ("seed", base.seed, head.seed),
        ]
    )
    if differences:
        return Verdict.NOT_COMPARABLE, "; ".join(differences)
    return Verdict.COMPARED, None


def _different(facts: list[tuple[str, Any, Any]]) -> list[str]:
    return [f"{name}: base {_said(base)}, head {_said(head)}" for name, base, head in facts if base != head]


def _said(value: Any) -> str:
    return "not recorded" if value is None else repr(value)


def _entries(name: str, base: dict[str, Any], head: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Pairs two mappings by name. A missing entry counts as None, like a flag that is not set."""
    return [(f"{name} {entry}", base.get(entry), head.get(entry)) for entry in sorted({*base, *head})]


def _passed(record: Record | None) -> bool:
    return record is not None and record.status is Status.PASSED


def _median(record: Record | None) -> float | None:
    return None if record is None or record.timing is None else record.timing.median_ns


def _absence(side: str, record: Record | None) -> str:
    return f"not in {side}" if record is None else f"skipped in {side}: {record.reason}"
