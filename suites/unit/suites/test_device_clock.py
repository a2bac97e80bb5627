"""Clocks of a device: the best that works is chosen, and batches that cannot be split are measured call by call."""

import jax
import jax.numpy as jnp
import pytest

from suites.timing import device_clock as module
from suites.timing.device_clock import WARM, Activity, CallTimes, CuptiClock, WallClock, device_clock
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
