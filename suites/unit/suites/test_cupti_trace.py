"""CUPTI's records become activities; CUPTI here is an imitation with the functions of the package cupti-python."""

import enum
from types import SimpleNamespace

import pytest

from suites.timing.device_clock import Activity, CuptiTrace


class FakeCupti:
    """Hands out records when it is flushed, as CUPTI does, and only records of enabled kinds."""

    class ActivityKind(enum.IntEnum):
        MEMCPY = 1
        MEMSET = 2
        DRIVER = 4
        CONCURRENT_KERNEL = 10
        MEMCPY2 = 22

    def __init__(self):
        self.enabled, self.pending, self.disabled = set(), [], []

    def activity_register_callbacks(self, requested, completed):
        size, most = requested()
        assert size >= 1 << 20
        assert most == 0
        self._completed = completed

    def activity_enable(self, kind):
        self.enabled.add(int(kind))

    def activity_disable(self, kind):
        self.enabled.remove(int(kind))
        self.disabled.append(int(kind))

    def activity_flush_all(self, flag):
        assert flag == 1
        records, self.pending = self.pending, []
        self._completed(records)
        for record in records:  # the memory belongs to CUPTI
            vars(record).clear()

    def did(self, kind, start, end, correlation_id, **fields):
        kind = int(self.ActivityKind[kind])
        if kind in self.enabled:
            times = {"start": start, "end": end, "correlation_id": correlation_id}
            self.pending.append(SimpleNamespace(kind=kind, **times, **fields))


@pytest.fixture
def cupti():
    return FakeCupti()


def test_kernels_copies_and_sets_are_recorded(cupti):
    def run():
        cupti.did("MEMSET", 1, 2, 5, bytes=4)
        cupti.did("CONCURRENT_KERNEL", 3, 9, 6, name="add")
        cupti.did("CONCURRENT_KERNEL", 10, 12, 7, name=b"bytes_in_older_versions")
        cupti.did("MEMCPY", 13, 14, 8, bytes=64, copy_kind=8)
        cupti.did("MEMCPY2", 15, 16, 9, bytes=32, copy_kind=10)
        cupti.did("DRIVER", 0, 99, 10)

    assert CuptiTrace(cupti).collect(run) == [
        Activity("set", "set, 4 bytes", 1, 2, 5),
        Activity("kernel", "add", 3, 9, 6),
        Activity("kernel", "bytes_in_older_versions", 10, 12, 7),
        Activity("copy", "copy of kind 8, 64 bytes", 13, 14, 8),
        Activity("copy", "copy of kind 10, 32 bytes", 15, 16, 9),
    ]


def test_nothing_is_recorded_before_and_after(cupti):
    trace = CuptiTrace(cupti)
    cupti.did("CONCURRENT_KERNEL", 1, 2, 1, name="before")
    assert [each.name for each in trace.collect(lambda: cupti.did("CONCURRENT_KERNEL", 3, 4, 2, name="in"))] == ["in"]
    assert cupti.enabled == set()
    cupti.did("CONCURRENT_KERNEL", 5, 6, 3, name="after")
    assert trace.collect(lambda: None) == []


def test_a_call_that_fails_ends_the_recording(cupti):
    trace = CuptiTrace(cupti)
    with pytest.raises(ZeroDivisionError):
        trace.collect(lambda: 1 // 0)
    assert cupti.enabled == set()
    assert len(cupti.disabled) == 4
    assert trace.collect(lambda: None) == []
