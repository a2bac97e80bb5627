"""Measures how long a CUDA device works on each call of a batch, by the best method that works here.

- ``cupti``: from the first to the last activity of a call, see :mod:`suites.timing.device_clock`. The calls are queued
  while the device is busy with something else, so a gap inside of a call is the device's own and not the host's.
- ``wall``: from a call in Python to the end of its work.

The two methods measure different times, so the method is recorded, and times of two methods are never compared.

It needs the package cupti-python (in the extras ``cuda12`` and ``cuda13``). CUPTI admits one user in a process with
drivers before r610, so nothing is recorded while another profiler is attached.

Kernels inside of CUDA graphs, which XLA calls command buffers, are recorded one by one, as CUPTI does unless
``GRAPH_TRACE`` is enabled. Recording puts a time stamp around each kernel, so the gap between two kernels of a call is
a little longer than without it, for every backend.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from reports import RecordError
from suites.timing import instruments
from suites.timing.gpu import COLD_FROM_L2, l2_bytes
from suites.timing.instruments import PREFIX

KERNEL = "kernel"


class SplitError(RecordError):
    """The work of a batch cannot be told apart by calls, so there is no time to record."""


class Activity(NamedTuple):
    """One kernel, copy or fill that a device ran.

    Attributes:
        kind: ``kernel``, ``copy`` or ``set``.
        name: Name of the kernel; direction and bytes of a copy or set.
        start_ns: When it began, by the clock of the profiler.
        end_ns: When it ended.
        launch: Number of the launch that caused it, greater than the number of every launch before. A CUDA graph is one
            launch, whose kernels, copies and sets are activities of their own.
    """

    kind: str
    name: str
    start_ns: int
    end_ns: int
    launch: int


class CallTimes(NamedTuple):
    """How long a device works on one call.

    Attributes:
        span_ns: From the start of its first to the end of its last activity: kernels, copies, sets and gaps.
        kernels_ns: Sum of its kernels; None where the method cannot tell, or where no kernel ran.
    """

    span_ns: float
    kernels_ns: float | None


def split(activities: Iterable[Activity], calls: int) -> list[list[Activity]]:
    """Returns the activities of each call, in the order of the calls.

    Equal calls make the same number of launches, which cause the same activities. They are in the order of
    the launches: a call on two streams may start its kernels in another order each time.

    Args:
        activities: All activities of a batch of equal calls.
        calls: How many calls the batch has.

    Raises:
        SplitError: Nothing ran, a time is missing, the calls did not do the same, or two calls overlap.
    """
    ordered = sorted(activities, key=lambda activity: (activity.launch, activity.start_ns))
    launches = [list(group) for _, group in itertools.groupby(ordered, key=lambda activity: activity.launch)]
    if not launches or len(launches) % calls:
        raise SplitError(f"the profiler saw {len(launches)} launches in {calls} equal calls, expected as many in each")
    timeless = next((one for one in ordered if not 0 < one.start_ns <= one.end_ns), None)
    if timeless is not None:
        raise SplitError(f"the profiler has no time of {timeless.name}: {timeless.start_ns} to {timeless.end_ns} ns")
    each = len(launches) // calls
    per_call = [list(itertools.chain(*launches[first : first + each])) for first in range(0, len(launches), each)]
    same = _signature(per_call[0])
    for index, call in enumerate(per_call):
        if _signature(call) != same:
            raise SplitError(f"call {index} of {calls} ran {_signature(call)}, the first one {same}")
    for before, after in itertools.pairwise(per_call):
        if max(one.end_ns for one in before) > min(one.start_ns for one in after):
            raise SplitError("a call began before the one before it had ended")
    return per_call


def call_times(activities: Sequence[Activity]) -> CallTimes:
    """Returns the times of one call.

    Args:
        activities: All activities of the call.

    Raises:
        SplitError: There are none, or the profiler has no time of them.
    """
    if not activities:
        raise SplitError("the profiler saw no work of the device during a call")
    start, end = min(one.start_ns for one in activities), max(one.end_ns for one in activities)
    if not 0 < start < end:
        raise SplitError(f"the profiler has no time of {activities[0].name}: {start} to {end} ns")
    kernels = sum(one.end_ns - one.start_ns for one in activities if one.kind == KERNEL)
    return CallTimes(float(end - start), float(kernels) if kernels else None)


def _signature(activities: Sequence[Activity]) -> list[tuple[str, str]]:
    return sorted((one.kind, one.name) for one in activities)


_KINDS = {"CONCURRENT_KERNEL": KERNEL, "MEMCPY": "copy", "MEMCPY2": "copy", "MEMSET": "set"}
"""The kind of activity of each record of CUPTI: MEMCPY2 copies between two devices."""

_BUFFER_BYTES = 8 << 20
"""Holds about 40,000 records."""

_FLUSH_FORCED = 1


class CuptiTrace:
    """Records activities of all CUDA devices of the process. Get it from :func:`cupti_trace`: CUPTI has one state.

    Args:
        cupti: The module ``cupti.cupti``.

    Raises:
        Exception: CUPTI does not work here, for example without a driver or permission.
    """

    def __init__(self, cupti: Any):
        self._cupti = cupti
        self._lock = threading.Lock()
        self._kinds = {int(getattr(cupti.ActivityKind, name)): kind for name, kind in _KINDS.items()}
        self._seen: list[Activity] = []
        self._failure: Exception | None = None
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._keep)

    def collect(self, run: Callable[[], Any]) -> list[Activity]:
        """Returns the activities of the devices while ``run`` ran, in no particular order.

        Args:
            run: Starts work, and waits until all of it has ended.

        Raises:
            Exception: CUPTI refuses to record, or a record has other fields than expected.
        """
        with self._lock:
            enabled: list[int] = []
            try:
                for kind in self._kinds:
                    self._cupti.activity_enable(kind)
                    enabled.append(kind)
                self._cupti.activity_flush_all(_FLUSH_FORCED)
                self._seen, self._failure = [], None
                run()
                self._cupti.activity_flush_all(_FLUSH_FORCED)
            finally:
                for kind in enabled:
                    self._cupti.activity_disable(kind)
            seen, failure = self._seen, self._failure
            self._seen, self._failure = [], None
        if failure is not None:
            raise failure
        return seen

    def _keep(self, records: Sequence[Any]) -> None:
        """Copies records: their memory belongs to CUPTI, which calls this and would swallow an exception."""
        try:
            for record in records:
                kind = self._kinds.get(int(record.kind))
                if kind is not None:
                    self._seen.append(_activity(kind, record))
        except Exception as error:
            self._failure = error


@functools.cache
def cupti_trace() -> CuptiTrace:
    """Returns the recorder of this process.

    Raises:
        ImportError: The package cupti-python, or CUPTI itself, is not installed.
        Exception: CUPTI does not work here.
    """
    return CuptiTrace(importlib.import_module("cupti.cupti"))


def _activity(kind: str, record: Any) -> Activity:
    if kind == KERNEL:
        name = record.name.decode() if isinstance(record.name, bytes) else str(record.name)
    else:
        direction = f" of kind {record.copy_kind}" if kind == "copy" else ""
        name = f"{kind}{direction}, {record.bytes} bytes"
    return Activity(kind, name, int(record.start), int(record.end), int(record.correlation_id))


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
        """See :class:`DeviceClock`. Calls that cannot be told apart in a batch are recorded one by one."""
        swept = _sweep(self._device) if sweep else _nothing
        start = time.perf_counter()
        last = call()  # measures how long the host takes to queue a call
        ahead = spin(_SPIN_PER_ENQUEUED * (time.perf_counter() - start) * (count + WARM), self._device)
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
        times = []
        for index in range(WARM + count):
            jax.block_until_ready(swept())
            start = time.perf_counter()
            jax.block_until_ready(call())
            elapsed = time.perf_counter() - start
            during()
            if index >= WARM:
                times.append(CallTimes(1e9 * elapsed, None))
        return times


@functools.cache
def device_clock(device: jax.Device) -> DeviceClock:
    """Returns the best clock that works for a device: CUPTI is tried on a short program."""
    x = jax.device_put(jnp.ones(1 << 16, jnp.float32), device)
    program = jax.jit(lambda x: x + 1)
    try:
        clock = CuptiClock(device)
        clock.times(lambda: program(x), 3)
    except Exception as error:  # no library, no driver, no permission, another profiler, no compiler
        return WallClock(device, f"{type(error).__name__}: {error}".splitlines()[0])
    return clock


def spin(seconds: float, device: jax.Device) -> Callable[[], Any]:
    """Returns a kernel that keeps the device busy for about this time: at least 0.2 ms, at most 20 ms."""
    wanted = min(max(seconds, _LEAST_SPIN_S), _MOST_SPIN_S)
    steps = 1
    while steps * _LEAST_SPIN_S < wanted:
        steps *= 2
    return instruments.spin(steps * _LEAST_SPIN_S, device)


@functools.cache
def _sweep(device: jax.Device) -> Callable[[], Any]:
    """Returns a function that starts to empty the cache of a device; it holds an array several times as large."""
    size = COLD_FROM_L2 * l2_bytes()
    try:
        return instruments.sweep(size, device)
    except Exception:  # no cuda-core, or no compiler: then the clock is WallClock, and the name does not matter
        with jax.default_device(device):
            data = jnp.ones(size // 4, jnp.float32)
        largest = jax.jit(jnp.max)
        return lambda: largest(data)


def _nothing() -> None:
    pass


def _without_instruments(activities: list[Activity]) -> list[Activity]:
    return [activity for activity in activities if PREFIX not in activity.name]
