"""The bandwidth of a CPU is the one of copies of the same size, and it is measured again where a call exceeds it."""

import pytest

from suites.timing import bandwidth
from suites.timing.bandwidth import SMALLEST, TRIES, rate, roof

MIB = 1 << 20


@pytest.fixture
def asked(monkeypatch):
    """A machine of two cores, busy at first: one thread moves 1 GB/s, two move 2 GB/s, and twice that from then on."""
    found = []

    def measured(size, threads, *, reads):
        found.append((size, threads, reads))
        return threads * (1e9 if len(found) <= 2 else 2e9)

    monkeypatch.setattr(bandwidth, "rate", measured)
    monkeypatch.setattr(bandwidth, "usable_cores", lambda: [0, 1])
    monkeypatch.setattr(bandwidth, "_measured", {})
    return found


def test_a_small_call_has_no_bandwidth_and_a_large_one_is_compared_with_copies_of_its_size(asked):
    assert roof(SMALLEST // 2, SMALLEST // 4) is None
    assert roof(MIB, MIB - 7) == roof(MIB, MIB + 16) == (2e9, "copy of 2.10 MB")
    assert sorted(asked) == [(2 * MIB, 1, False), (2 * MIB, 2, False)]
    assert roof(8 * MIB, MIB // 2).kind == "read of 8.39 MB"
    assert asked[-1][2]


def test_a_bandwidth_is_known_once_measured_and_measured_again_if_a_call_exceeds_it(asked):
    assert roof(MIB, MIB).bandwidth == roof(MIB, MIB, reached=1.9e9).bandwidth == 2e9
    assert len(asked) == 2
    assert roof(MIB, MIB, reached=3e9).bandwidth == 4e9
    assert len(asked) == 4
    roof(MIB, MIB, reached=9e9)
    assert len(asked) == 4 + 2 * TRIES


@pytest.mark.parametrize("reads", [False, True])
def test_rates_are_those_of_memory(reads):
    assert 1e8 < rate(MIB, 2, reads=reads) < 2e12
