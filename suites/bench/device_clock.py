"""Measures how long a CUDA device works on each call of a batch, by the best method that works here.

- ``cupti``: from the first to the last activity of a call, see :mod:`suites.bench.cupti_trace`. The calls are queued
  while the device is busy with something else, so a gap inside of a call is the device's own and not the host's.
- ``cupti-kernels``: the sum of the kernels of a call, by the profiler that JAX ships for Mosaic.
- ``wall``: from a call in Python to the end of its work.

What they measure differs, so the method is recorded, and times of two methods are never compared.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from suites.bench import two_clocks
from suites.bench.cupti_trace import CuptiTrace, cupti_trace
from suites.bench.device_activities import Activity, CallTimes, SplitError, call_times, split
from suites.bench.gpu import COLD_FROM_L2, l2_bytes
from suites.bench.instruments import PREFIX, Spin, Sweep

WARM = 2
"""Calls in front of each batch that are not measured. They load the code, and the data of hot calls."""

_LEAST_SPIN_S = 2e-4
_MOST_SPIN_S = 2e-2
_SPIN_PER_ENQUEUED = 3.0
"""The host takes about twice as long to queue a call while the profiler records."""


class DeviceClock(Protocol):
    """Measures calls on one device.

    Attributes:
        method: As recorded.
        note: Why a better method does not work here; None if there is no better one.
    """

    method: str
    note: str | None

    def times(
        self, call: Callable[[], Any], count: int, *, sweep: bool = False, during: Callable[[], None] = lambda: None
    ) -> list[CallTimes]:
        """Returns the times of calls.

        Args:
            call: Starts the work of one call, and returns arrays that are ready when it has ended. It is called
                :data:`WARM` times more than are measured.
            count: How many calls to measure.
            sweep: Whether to empty the cache of the device before each call.
            during: Called while the device works, at least once.

        Raises:
            SplitError: The device did nothing during a call.
            Exception: A call fails.
        """


class CuptiClock:
    """Measures by CUPTI's activities.

    Args:
        device: The device.
        trace: The recorder; by default the one of this process.

    Raises:
        ImportError: The package cuda-core, for the instruments, or cupti-python is not installed.
        Exception: CUPTI does not work here.
    """

    method = "cupti"
    note: str | None = None

    def __init__(self, device: jax.Device, trace: CuptiTrace | None = None):
        self._device = device
        spin(_LEAST_SPIN_S, device)  # before CUPTI: once that is set up, no other profiler works in this process
        self._trace = cupti_trace() if trace is None else trace

    def times(
        self, call: Callable[[], Any], count: int, *, sweep: bool = False, during: Callable[[], None] = lambda: None
    ) -> list[CallTimes]:
        """See :class:`DeviceClock`. Calls that a batch does not tell apart are recorded one by one."""
        swept = _sweep(self._device) if sweep else _nothing
        start = two_clocks.wall()
        last = call()  # also finds out how long the host takes to queue a call
        ahead = spin(_SPIN_PER_ENQUEUED * (two_clocks.wall() - start) * (count + WARM), self._device)
        jax.block_until_ready(last)
        del last

        def batch() -> None:
            ahead()
            result = None
            for _ in range(count + WARM):
                result = None  # frees the memory of the results, for the next ones
                swept()
                result = call()
            during()
            jax.block_until_ready(result)

        activities = _without_instruments(self._trace.collect(batch))
        try:
            return [call_times(each) for each in split(activities, count + WARM)[WARM:]]
        except SplitError:
            return [self._alone(call, swept, ahead, during) for _ in range(count)]

    def _alone(
        self, call: Callable[[], Any], swept: Callable[[], Any], ahead: Callable[[], None], during: Callable[[], None]
    ) -> CallTimes:
        def one() -> None:
            ahead()
            swept()
            result = call()
            during()
            jax.block_until_ready(result)

        return call_times(_without_instruments(self._trace.collect(one)))


class KernelsClock:
    """Measures the kernels of a call by the profiler that JAX ships for Mosaic.

    Args:
        device: The device.
        note: Why CUPTI's activities do not work here.

    Raises:
        ImportError: This JAX has no such profiler.
    """

    method = "cupti-kernels"

    def __init__(self, device: jax.Device, note: str | None):
        self._device, self.note = device, note
        extension = getattr(importlib.import_module("jax._src.lib"), "mosaic_gpu", None)
        self._profiler = getattr(extension, "_mosaic_gpu_ext", None)
        if not hasattr(self._profiler, "_cupti_init"):
            raise ImportError("JAX's profiler for Mosaic is not there")

    def times(
        self, call: Callable[[], Any], count: int, *, sweep: bool = False, during: Callable[[], None] = lambda: None
    ) -> list[CallTimes]:
        """See :class:`DeviceClock`."""
        swept = _sweep(self._device) if sweep else _nothing
        for _ in range(WARM):
            jax.block_until_ready(call())
        return [self._one(call, swept, during) for _ in range(count)]

    def _one(self, call: Callable[[], Any], swept: Callable[[], Any], during: Callable[[], None]) -> CallTimes:
        jax.block_until_ready(swept())
        profiler: Any = self._profiler
        profiler._cupti_init()
        try:
            result = call()
            during()
            jax.block_until_ready(result)
        finally:
            timings = profiler._cupti_get_timings(True)
        if not timings:
            raise SplitError("the profiler saw no kernel during a call")
        total = 1e6 * sum(milliseconds for _, milliseconds in timings)
        return CallTimes(total, total)


class WallClock:
    """Measures from a call in Python to the end of its work.

    Args:
        device: The device.
        note: Why no profiler works here.
    """

    method = "wall"

    def __init__(self, device: jax.Device, note: str | None):
        self._device, self.note = device, note

    def times(
        self, call: Callable[[], Any], count: int, *, sweep: bool = False, during: Callable[[], None] = lambda: None
    ) -> list[CallTimes]:
        """See :class:`DeviceClock`. ``during`` is called between the calls, which it would lengthen."""
        swept = _sweep(self._device) if sweep else _nothing
        found = []
        for index in range(WARM + count):
            jax.block_until_ready(swept())
            start = two_clocks.wall()
            jax.block_until_ready(call())
            elapsed = two_clocks.wall() - start
            during()
            if index >= WARM:
                found.append(CallTimes(1e9 * elapsed, None))
        return found


@functools.cache
def device_clock(device: jax.Device) -> DeviceClock:
    """Returns the best clock that works for a device: each is tried on a short program."""
    notes: list[str] = []
    x = jax.device_put(jnp.ones(1 << 16, jnp.float32), device)
    program = jax.jit(lambda x: x + 1)
    makers: list[Callable[[], DeviceClock]] = [
        lambda: CuptiClock(device),
        lambda: KernelsClock(device, "; ".join(notes)),
    ]
    for make in makers:
        try:
            clock = make()
            clock.times(lambda: program(x), 3)
            return clock
        except Exception as error:  # no library, no driver, no permission, another profiler, no compiler
            notes.append(f"{type(error).__name__}: {error}".splitlines()[0])
    return WallClock(device, "; ".join(notes))


def spin(seconds: float, device: jax.Device) -> Spin:
    """Returns a kernel that keeps the device busy for about so long: at least 0.2 ms, at most 20 ms."""
    wanted = min(max(seconds, _LEAST_SPIN_S), _MOST_SPIN_S)
    steps = 1
    while steps * _LEAST_SPIN_S < wanted:
        steps *= 2
    return _spin(steps * _LEAST_SPIN_S, device)


@functools.cache
def _spin(seconds: float, device: jax.Device) -> Spin:
    return Spin(seconds, device)


@functools.cache
def _sweep(device: jax.Device) -> Callable[[], Any]:
    """A function that starts to empty the cache of a device; it keeps an array several times as large."""
    size = COLD_FROM_L2 * l2_bytes()
    try:
        return Sweep(size, device)
    except Exception:  # no cuda-core, or no compiler: then no clock sees single kernels, and any kernel will do
        with jax.default_device(device):
            data = jnp.ones(size // 4, jnp.float32)
        largest = jax.jit(jnp.max)
        return lambda: largest(data)


def _nothing() -> None:
    pass


def _without_instruments(activities: list[Activity]) -> list[Activity]:
    return [activity for activity in activities if PREFIX not in activity.name]
