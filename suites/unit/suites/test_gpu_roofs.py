"""The roof of a call on a GPU is a copy of its size in its state of the cache, measured once."""

import jax
import pytest

from suites.timing import gpu_roofs
from suites.timing.device_clock import CallTimes


@pytest.fixture
def asked(monkeypatch):
    """A device on which every call takes 1 us, at the least."""
    found = []

    class Clock:
        def times(self, call, count, *, sweep):
            found.append((call().size, sweep))
            return [CallTimes(2000.0, None), CallTimes(1000.0, None)]

    monkeypatch.setattr(gpu_roofs, "device_clock", lambda device: Clock())
    device = jax.devices("cpu")[0]
    monkeypatch.setattr(gpu_roofs.jax, "devices", lambda platform: [device])
    gpu_roofs._rate.cache_clear()
    yield found
    gpu_roofs._rate.cache_clear()


def test_a_roof_is_a_copy_of_the_size_of_the_call_in_its_state_of_the_cache(asked):
    for cache in ("hot", "cold", "hot"):
        found = gpu_roofs.roof(3000, 1000, cache)
        assert found.bandwidth == pytest.approx(4.096e9)
        assert found.kind == f"copy of 4.10 kB, {cache}"
    assert asked == [(512, False), (512, True)], "each once"


def test_a_call_that_hardly_writes_is_also_compared_with_a_maximum(asked):
    assert gpu_roofs.roof(4000, 4, "hot").kind == "read of 4.10 kB, hot"
    assert asked == [(1, False), (512, False)]
