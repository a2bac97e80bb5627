"""Which measured bandwidth a kernel is compared with, what is measured for it, and in how much memory."""

import resource

import numpy as np
import pytest

from suites.bench import bandwidth
from suites.bench.bandwidth import LEVELS, STALE_S, TRIES, Roofs, level_of, patterns_of, transfers, working_sets
from suites.bench.memory_kernels import ARRAYS, METHODS, kernel
from suites.bench.memory_transfers import HostTransfer, rate
from suites.bench.peak_memory import _resident

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
RATES = {"read": 4e9, "triad": 3e9, "copy": 2e9, "write": 1e9}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine with these caches and eight cores."""
    monkeypatch.setattr(bandwidth, "cache_bytes", lambda: {"L1": 32 * KIB, "L2": MIB, "L3": 32 * MIB})
    monkeypatch.setattr(bandwidth, "usable_cores", lambda: list(range(8)))
    monkeypatch.setattr(bandwidth, "available_bytes", lambda: 64 * GIB)


class Machine:
    """Rates that are known; ``busy`` divides them."""

    def __init__(self):
        self.asked, self.busy, self.now = [], 1.0, 0.0

    def rate(self, transfer, seconds):
        self.asked.append(transfer)
        return RATES[transfer.pattern] / self.busy / transfer.threads

    def roofs(self):
        return Roofs(self.rate, lambda: self.now)


@pytest.mark.parametrize(
    ("read", "written", "bandwidth", "kind"),
    [
        (4 * KIB, 4 * KIB, 2e9, "copy, L1 cache"),
        (100 * KIB, 100 * KIB, 2e9, "copy, L2 cache"),
        (MIB, MIB, 2e9, "copy, L3 cache"),
        (20 * MIB, 20 * MIB, 2e9, "copy, partly L3 cache"),
        (256 * MIB, KIB, 4e9, "read, memory"),
        (256 * MIB, 128 * MIB, 3e9, "triad, memory"),
        (KIB, 256 * MIB, 1e9, "write, memory"),
        (90 * MIB, 64 * MIB, 3e9, "triad, memory"),
    ],
)
def test_a_roof_fits_the_working_set_and_its_traffic(read, written, bandwidth, kind):
    assert Machine().roofs().roof(read, written) == (bandwidth, kind)


@pytest.mark.parametrize(
    ("read", "written", "patterns"),
    [
        (1, 1, ["copy"]),
        (2, 1, ["triad"]),
        (1, 0, ["read"]),
        (0, 1, ["write"]),
        (0, 0, ["read"]),
        (100, 2, ["read"]),
        (6, 1, ["read", "triad"]),
        (3, 2, ["triad", "copy"]),
        (1, 3, ["copy", "write"]),
    ],
)
def test_traffic_between_two_patterns_may_be_as_fast_as_either(read, written, patterns):
    assert patterns_of(read, written) == patterns


def test_the_best_measurement_counts_and_the_spread_is_known():
    machine = Machine()
    roofs, machine.busy = machine.roofs(), 4.0
    assert roofs.measure("L2", "copy") == 0.5e9
    machine.busy = 1.0
    assert roofs.measure("L2", "copy") == 2e9
    machine.busy = 2.0
    assert roofs.measure("L2", "copy") == roofs.best("L2", "copy") == 2e9
    assert roofs.spread("L2", "copy") == 0.75


def test_a_roof_is_measured_again_after_a_while_by_its_fastest_ways_alone():
    machine = Machine()
    roofs = machine.roofs()
    roofs.roof(MIB, MIB)
    tried = len(set(machine.asked))
    machine.asked.clear()
    machine.now = STALE_S / 2
    roofs.roof(MIB, MIB)
    assert machine.asked == []
    machine.now = 2 * STALE_S
    roofs.roof(MIB, MIB)
    assert 0 < len(machine.asked) < tried
    counts = [each.threads for each in machine.asked]
    assert sorted(counts) == [1, 2, 4, 8]  # a busy machine may have held up the others


def test_a_roof_that_a_call_exceeds_is_measured_again_a_few_times():
    machine = Machine()
    roofs, machine.busy = machine.roofs(), 2.0
    assert roofs.roof(MIB, MIB).bandwidth == 1e9
    machine.busy = 1.0
    assert roofs.roof(MIB, MIB, reached=0.9e9).bandwidth == 1e9  # not exceeded
    assert roofs.roof(MIB, MIB, reached=1.5e9).bandwidth == 2e9
    machine.asked.clear()
    assert roofs.roof(MIB, MIB, reached=9e9).bandwidth == 2e9
    assert len(machine.asked) == TRIES * 4


def test_levels_are_ordered_and_their_working_sets_lie_in_them():
    assert [level_of(size) for size in (0, 32 * KIB, 33 * KIB, MIB, 2 * MIB, 33 * MIB, 128 * MIB + 1)] == [
        "L1", "L1", "L2", "L2", "L3", "partly L3", "memory"
    ]  # fmt: skip
    for level in LEVELS[:-1]:
        assert {level_of(size) for size in working_sets(level)} == {level}
    assert min(working_sets("memory")) >= 4 * 32 * MIB


@pytest.mark.parametrize("l3", [32 * MIB, 260 * MIB, 1152 * MIB])
@pytest.mark.parametrize("available", [64 * GIB, 2 * GIB, 64 * MIB, None])
def test_no_measurement_takes_more_memory_than_it_may(monkeypatch, l3, available):
    monkeypatch.setattr(bandwidth, "cache_bytes", lambda: {"L1": 48 * KIB, "L2": 2 * MIB, "L3": l3})
    monkeypatch.setattr(bandwidth, "available_bytes", lambda: available)
    largest = max(max(working_sets(level)) for level in LEVELS)
    assert largest <= GIB
    if available is not None:
        assert largest <= max(available // 8, 16 * MIB)
    if available != 64 * MIB and l3 == 260 * MIB and available != 2 * GIB:
        assert largest > 3 * l3


def test_streaming_is_tried_where_data_may_lie_in_memory():
    assert "streaming" not in {each.method for each in transfers("L2", "copy")}
    assert "streaming" in {each.method for each in transfers("memory", "copy")}
    assert {each.threads for each in transfers("memory", "copy")} == {1, 2, 4, 8}
    assert {each.threads for each in transfers("L1", "copy")} == {1, 2}  # larger shares than 8 KiB


def _aligned(count):
    memory = np.zeros(count + 16, np.int32)
    start = -memory.ctypes.data % 64 // 4
    return memory[start : start + count]


@pytest.mark.parametrize(
    ("pattern", "method"), [(pattern, method) for pattern in METHODS for method in METHODS[pattern]]
)
def test_every_byte_is_moved(pattern, method):
    """A loop that leaves memory out would claim a bandwidth that no machine has."""
    target, first, second = (_aligned(1024) for _ in range(3))
    first[:], second[:], target[:] = np.arange(1024), 7, -1
    addresses = [each.ctypes.data for each in (target, first, second)]
    if not ARRAYS[pattern][1]:
        addresses = [0, *addresses[1:]]
    total = kernel(pattern, method)(*addresses, 4096, 2, 0, 1)
    ones = 0x01010101 if method == "library" else 1
    expected = {"copy": first, "triad": first + second, "write": ones, "read": -1}[pattern]
    assert np.array_equal(target, np.broadcast_to(expected, 1024))
    if pattern == "read":
        assert total == 2 * first.sum()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pattern", METHODS)
def test_rates_are_those_of_memory_and_leave_nothing_behind(pattern, threads):
    working_set = 48 * MIB
    rate(HostTransfer(pattern, METHODS[pattern][0], MIB, threads), 0.001)  # compiles
    before, most = _resident("VmRSS"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    found = rate(HostTransfer(pattern, METHODS[pattern][0], working_set, threads), 0.002)
    assert 1e7 < found < 1e12 * threads
    assert _resident("VmRSS") - before < 4 * MIB
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) <= max(most, before + working_set + 4 * MIB)


def test_this_machine_tells_its_caches(monkeypatch):
    monkeypatch.undo()
    sizes = bandwidth.cache_bytes()
    assert 0 < sizes["L1"] < sizes["L2"] <= sizes["L3"]
