"""Clocks of a device: the best that works is chosen, and batches that cannot be split are measured call by call."""

import random

import jax
import jax.numpy as jnp
import pytest

from suites.timing import device_clock as module
from suites.timing.device_clock import (
    WARM,
    Activity,
    CallTimes,
    CuptiClock,
    SplitError,
    WallClock,
    call_times,
    device_clock,
    split,
)
from suites.timing.instruments import PREFIX

CPU = jax.devices("cpu")[0]


class FakeDevice:
    """Does what is called, one after the other, and is also the recorder."""

    def __init__(self):
        self.now, self.launches, self.seen, self.batches = 1000, 0, [], 0

    def work(self, name, ns, kind="kernel"):
        self.launches += 1
        self.seen.append(Activity(kind, name, self.now, self.now + ns, self.launches))
        self.now += ns + 50

    def collect(self, run):
        self.seen = []
        self.batches += 1
        run()
        return self.seen


@pytest.fixture
def device(monkeypatch):
    fake = FakeDevice()
    monkeypatch.setattr(module, "spin", lambda seconds, device: lambda: fake.work(f"{PREFIX}_spin", 1_000_000))
    monkeypatch.setattr(module, "_sweep", lambda device: lambda: fake.work(f"{PREFIX}_sweep", 70_000))
    return fake


def test_calls_are_queued_behind_a_busy_device_and_timed_each(device):
    lengths = iter(range(100, 200))

    def call():
        device.work("copy, 8 bytes", 10, "copy")
        device.work("add", next(lengths))
        return jnp.ones(1)

    times = CuptiClock(CPU, device).times(call, 5)
    # The call that finds out how long queueing takes, and those that warm up, are not among them.
    assert times == [CallTimes(10.0 + 50 + ns, float(ns)) for ns in range(101 + WARM, 106 + WARM)]
    assert device.batches == 1
    assert device.seen[0].name == f"{PREFIX}_spin"


def test_the_cache_is_swept_before_each_call_and_does_not_count(device):
    times = CuptiClock(CPU, device).times(lambda: device.work("add", 100), 4, sweep=True)
    assert times == [CallTimes(100.0, 100.0)] * 4
    assert [each.name for each in device.seen] == [f"{PREFIX}_spin", *[f"{PREFIX}_sweep", "add"] * (4 + WARM)]


def test_calls_that_differ_are_measured_one_by_one(device):
    counts = iter([1, 1, 1, 2, 1, *[1, 2, 3]])

    def call():
        for _ in range(next(counts)):
            device.work("step", 100)

    assert [each.span_ns for each in CuptiClock(CPU, device).times(call, 2)] == [100.0, 250.0]
    assert device.batches == 3


def test_without_cupti_the_wall_clock_measures_and_says_why():
    clock = device_clock(CPU)
    assert isinstance(clock, WallClock)
    assert clock.method == "wall"
    assert clock.note
    times = clock.times(lambda: jnp.ones(8) + 1, 3)
    assert len(times) == 3
    assert all(each.span_ns > 0 and each.kernels_ns is None for each in times)


# The work of a device is told apart by calls.


def kernel(name, start, end, launch):
    return Activity("kernel", name, start, end, launch)


def batch(*calls):
    """Activities of calls, each a list of (kind, name, start, end) with a launch of its own, out of order."""
    launches = iter(range(100, 10_000))
    found = [Activity(*each, next(launches)) for call in calls for each in call]
    random.Random(0).shuffle(found)
    return found


def queued(start):
    return [
        ("set", "set, 4 bytes", start, start + 2),
        ("kernel", "first", start + 3, start + 10),
        ("copy", "copy, 64 bytes", start + 11, start + 14),
        ("kernel", "second", start + 20, start + 30),
    ]


def test_kernels_copies_sets_and_gaps_of_a_call_count():
    found = [call_times(each) for each in split(batch(queued(10), queued(1000), queued(2000)), 3)]
    assert found == [CallTimes(30.0, 17.0)] * 3


def test_a_call_on_two_streams_is_as_long_as_both_together():
    two_streams = [("kernel", "left", 10, 50), ("kernel", "right", 20, 60)]
    later = [("kernel", "left", 130, 170), ("kernel", "right", 120, 160)]  # the second stream is first, this time
    assert [call_times(each) for each in split(batch(two_streams, later), 2)] == [CallTimes(50.0, 80.0)] * 2


def test_all_kernels_of_a_cuda_graph_belong_to_its_launch():
    graph = [kernel("a", 10, 20, 7), kernel("b", 22, 30, 7), kernel("a", 110, 120, 9), kernel("b", 122, 130, 9)]
    assert [call_times(each) for each in split(graph, 2)] == [CallTimes(20.0, 18.0)] * 2


@pytest.mark.parametrize(
    ("activities", "calls", "reason"),
    [
        ([], 2, "0 launches in 2 equal calls"),
        (batch(queued(10), queued(1000))[1:], 2, "7 launches in 2 equal calls"),
        ([kernel("a", 1, 2, 1), kernel("b", 3, 4, 2)], 2, "call 1 of 2 ran .*'b'.* the first one .*'a'"),
        ([kernel("a", time, time, launch) for time, launch in ((1, 1), (2, 2), (3, 2), (4, 2))], 2, "call 1 of 2 ran"),
        ([kernel("a", 1, 5, 1), kernel("a", 3, 8, 2)], 2, "began before the one before it had ended"),
        ([kernel("a", 0, 0, 1), kernel("a", 3, 8, 2)], 2, "has no time of a: 0 to 0 ns"),
    ],
    ids=["nothing", "one_lost", "another_kernel", "more_in_one_graph", "overlap", "no_time"],
)
def test_calls_that_cannot_be_told_apart_are_refused(activities, calls, reason):
    with pytest.raises(SplitError, match=reason):
        split(activities, calls)
