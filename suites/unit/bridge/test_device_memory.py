"""Memory for temporaries on the device, with a stand-in for CUDA's driver that hands out numbers."""

import pytest

import bridge

pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

from bridge.languages.numba_cuda import device_memory
from bridge.languages.numba_cuda.device_memory import StreamMemory
from suites.unit.bridge.without_gpu import FakeDriver


class Context:
    """What Numba's pointers refer to weakly."""


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver()
    monkeypatch.setattr(device_memory, "cu", fake)
    monkeypatch.setattr(device_memory, "_pools", {0: "pool"})
    return fake


def test_a_temporary_is_allocated_and_freed_in_the_order_of_its_stream(driver):
    memory, context = StreamMemory(5, 0), Context()
    first, second = memory(context, 100), memory(context, 200)
    assert driver.of("cuMemAllocFromPoolAsync") == [(100, "pool", 5), (200, "pool", 5)]
    view = first.view(8)
    address = first.device_pointer_value
    del first
    assert driver.of("cuMemFreeAsync") == []
    del view, second
    assert driver.of("cuMemFreeAsync") == [(address, 5), (address + 1, 5)]


def test_release_gives_back_what_the_pool_keeps(driver):
    bridge.release()
    assert driver.of("cuMemPoolTrimTo") == [("pool", 0)]


def test_memory_that_is_used_up_is_an_error_of_its_own(driver, monkeypatch):
    monkeypatch.setattr(driver, "cuMemAllocFromPoolAsync", lambda *of: (2, 0), raising=False)
    monkeypatch.setattr(device_memory.driver, "error_text", lambda status: f"status {status}")
    with pytest.raises(bridge.DeviceMemoryError, match="allocating 100 bytes on CUDA device 0 failed: status 2"):
        StreamMemory(5, 0)(Context(), 100)
