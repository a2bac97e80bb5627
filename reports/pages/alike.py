"""Finds differences that make the times of two records incomparable, such as another machine, flag or shape."""

from typing import Any

from reports.records.header import Run
from reports.records.record import Record

INTERLEAVED = "interleaved"
"""The flag of a run whose processes were interleaved with those of another run: both have the same value."""

_NO_SETTINGS = (INTERLEAVED, "session_seed")


def differences(base: Record, head: Record) -> list[str]:
    """Returns the differences of two timed records of one cell, each as a text with both values.

    Machines are told apart by their identity, and by model, cores, memory and operating system, because older runs have
    no identity. If one of the two runs did not record its memory or identity, these are not compared.
    """
    one, other = _facts(base), _facts(head)
    return [
        f"{name}: base {_text(one.get(name))}, head {_text(other.get(name))}"
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name) and not (name in _UNKNOWN and None in (one[name], other[name]))
    ]


_UNKNOWN = ("memory", "machine")


def _facts(record: Record) -> dict[str, Any]:
    assert record.timing is not None
    device, host, flags = record.run.device, record.run.host, record.run.flags
    return {
        "platform": device.platform, "device kind": device.kind, "device uuid": device.uuid, "host cpu": host.cpu,
        "cores": host.cores, "operating system": host.os, "memory": host.memory_bytes, "machine": host.machine,
        "affinity": host.affinity,
        **{f"threads {name}": count for name, count in host.threads.items()},
        **{f"flag {name}": value for name, value in flags.items() if name not in _NO_SETTINGS},
        "operator version": record.cell.operator_version, "timing method": record.timing.method,
        "cache": record.timing.cache, "shapes": record.shapes, "dtypes": record.dtypes, "seed": record.seed,
    }  # fmt: skip


def are_interleaved(base: Run, head: Run) -> bool:
    """Tells whether the processes of two runs were interleaved in one session."""
    session = base.flags.get(INTERLEAVED)
    return session is not None and session == head.flags.get(INTERLEAVED)


def _text(value: Any) -> str:
    return "not recorded" if value is None else repr(value)
