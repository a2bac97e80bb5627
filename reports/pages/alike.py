"""Finds what makes the times of two records incomparable, such as another machine, flag or shape."""

from typing import Any

from reports.records.header import Run
from reports.records.record import Record
from reports.statistics.verdict_codes import Code

INTERLEAVED = "interleaved"
"""The flag of a run that was timed in turns with another one: both have the same value."""

_NO_SETTINGS = (INTERLEAVED, "session_seed")

_Fact = tuple[Code, str, Any, Any]


def differences(base: Record, head: Record) -> list[tuple[Code, str]]:
    """Returns the differences of two timed records of one cell: for each its code, and a text with both values."""
    assert base.timing is not None
    assert head.timing is not None
    return header_differences(base.run, head.run) + _different(
        [
            (Code.OPERATOR, "operator version", base.cell.operator_version, head.cell.operator_version),
            (Code.METHOD, "timing method", base.timing.method, head.timing.method),
            (Code.CACHE, "cache", base.timing.cache, head.timing.cache),
            (Code.SHAPES, "shapes", base.shapes, head.shapes),
            (Code.SHAPES, "dtypes", base.dtypes, head.dtypes),
            (Code.SEED, "seed", base.seed, head.seed),
        ]
    )


def header_differences(base: Run, head: Run) -> list[tuple[Code, str]]:
    """Returns the differences of two runs that make their times incomparable: machine, device, threads and flags.

    Machines are told apart by their identity, and by model, cores, memory and operating system, since older runs have
    no identity. What one of the two runs did not record of its machine says nothing.
    """
    facts: list[_Fact] = [
        (Code.MACHINE, "platform", base.device.platform, head.device.platform),
        (Code.MACHINE, "device kind", base.device.kind, head.device.kind),
        (Code.MACHINE, "device uuid", base.device.uuid, head.device.uuid),
        (Code.MACHINE, "host cpu", base.host.cpu, head.host.cpu),
        (Code.MACHINE, "cores", base.host.cores, head.host.cores),
        (Code.MACHINE, "operating system", base.host.os, head.host.os),
        *(
            (Code.MACHINE, name, *values)
            for name, *values in (
                ("memory", base.host.memory_bytes, head.host.memory_bytes),
                ("machine", base.host.machine, head.host.machine),
            )
            if None not in values
        ),
        (Code.THREADS, "affinity", base.host.affinity, head.host.affinity),
    ]
    facts += _entries(Code.THREADS, "threads", base.host.threads, head.host.threads)
    flags = [{name: value for name, value in run.flags.items() if name not in _NO_SETTINGS} for run in (base, head)]
    facts += _entries(Code.FLAGS, "flag", *flags)
    return _different(facts)


def are_interleaved(base: Run, head: Run) -> bool:
    """Tells whether the processes of two runs alternated in one session."""
    session = base.flags.get(INTERLEAVED)
    return session is not None and session == head.flags.get(INTERLEAVED)


def _different(facts: list[_Fact]) -> list[tuple[Code, str]]:
    return [
        (code, f"{name}: base {_said(base)}, head {_said(head)}") for code, name, base, head in facts if base != head
    ]


def _said(value: Any) -> str:
    return "not recorded" if value is None else repr(value)


def _entries(code: Code, name: str, base: dict[str, Any], head: dict[str, Any]) -> list[_Fact]:
    """Pairs two mappings by name. A missing entry counts as None, like a flag that is not set."""
    return [(code, f"{name} {entry}", base.get(entry), head.get(entry)) for entry in sorted({*base, *head})]
