"""Memory for temporaries on the device, with a stand-in for CUDA's driver that hands out numbers."""

import contextlib
import gc
import itertools
import threading

import pytest

import bridge

pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

from bridge.languages.numba_cuda import device_memory
from bridge.languages.numba_cuda.device_memory import StreamMemory


class Driver:
    """Blocks of memory as numbers: which were allocated, and which were freed."""

    def __init__(self):
        self.numbers = itertools.count(1000)
        self.allocated, self.freed = [], []

    def CUstream(self, stream):  # noqa: N802
        return stream

    def cuMemAllocFromPoolAsync(self, size, pool, stream):  # noqa: N802
        self.allocated.append(next(self.numbers))
        return 0, self.allocated[-1]

    def cuMemFreeAsync(self, pointer, stream):  # noqa: N802
        self.freed.append(int(pointer))
        return (0,)


@pytest.fixture
def driver(monkeypatch):
    fake = Driver()
    monkeypatch.setattr(device_memory, "cu", fake)
    monkeypatch.setattr(device_memory, "_pool", lambda ordinal: None)
    monkeypatch.setattr(device_memory, "_kept", device_memory._Kept(1000))
    monkeypatch.setattr(device_memory.driver, "current", lambda ordinal: contextlib.nullcontext())
    return fake


class Context:
    """What Numba's pointers refer to weakly."""


@pytest.fixture
def context():
    return Context()


def test_a_dropped_temporary_serves_the_next_one_of_its_size(driver, context):
    memory = StreamMemory(1, 0)
    first = memory(context, 100)
    assert driver.allocated == [1000]
    del first
    second, third = memory(context, 100), memory(context, 100)
    assert driver.allocated == [1000, 1001]
    assert driver.freed == []
    del second, third


def test_all_streams_together_keep_a_bounded_number_of_bytes(driver, context):
    memories = [StreamMemory(stream, 0) for stream in range(5)]
    for memory in memories:
        memory(context, 400)
    assert device_memory._kept.bytes == 800
    assert driver.freed == driver.allocated[2:]


def test_release_gives_back_what_is_kept(driver, context):
    memory = StreamMemory(1, 0)
    in_use = memory(context, 100)
    memory(context, 200)
    bridge.release()
    assert driver.freed == [1001]
    assert device_memory._kept.bytes == 0
    del in_use
    bridge.release()
    assert sorted(driver.freed) == driver.allocated
    memory(context, 200)
    assert len(driver.allocated) == 3


def test_a_stream_that_is_gone_is_not_remembered(driver):
    memory = StreamMemory(1, 0)
    assert memory in device_memory._memories
    del memory
    gc.collect()
    assert not any(each._stream == 1 and each._free for each in device_memory._memories)


def test_no_two_threads_get_one_block(driver, context):
    memory, wrong, held = StreamMemory(1, 0), [], set()
    lock = threading.Lock()

    def work():
        for _ in range(300):
            block = memory(context, 8)
            address = block.device_pointer_value
            with lock:
                if address in held:
                    wrong.append(address)
                held.add(address)
            with lock:
                held.discard(address)
            del block

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(driver.allocated) <= 8 + len(driver.freed)
    assert device_memory._kept.bytes == 8 * (len(driver.allocated) - len(driver.freed))
