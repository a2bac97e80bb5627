"""Times a cell on a CUDA device, round by round: hot or cold, and without the samples of a throttled device.

Hot calls share one set of inputs, and drop their results, so that the next results get the same memory.

Cold calls rotate through several sets, and keep the results of the last calls, one for each set. So a call finds its
inputs and outputs at other addresses than the call before it. All sets together are
:data:`~suites.timing.gpu.COLD_FROM_L2` times as large as the cache. Small calls would need thousands of sets. They use
two, and the cache is emptied before each call.
"""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from reports import ProcessTimes, RecordError
from reports.records.quantiles import quantile
from suites.timing import gpu
from suites.timing.device_clock import WARM, CallTimes, DeviceClock, device_clock
from suites.timing.measurement import Measurement

MOST_SETS = 64
"""Most sets of inputs. Making one takes about 30 us."""


class InputSets(NamedTuple):
    """How many sets of inputs the calls rotate through.

    Attributes:
        sets: Sets of inputs; the results of as many calls are kept.
        sweep: Whether the cache must be emptied before each call, because the sets fit in it.
    """

    sets: int
    sweep: bool


HOT = InputSets(1, False)


def input_sets(cache: str, working_set_bytes: int) -> InputSets:
    """Returns how many sets of inputs the calls of a cell need.

    Args:
        cache: ``hot`` or ``cold``.
        working_set_bytes: Bytes that a call reads and writes.
    """
    if cache == "hot":
        return HOT
    sets = max(2, -(-gpu.COLD_FROM_L2 * gpu.l2_bytes() // max(1, working_set_bytes)))
    return InputSets(sets, False) if sets <= MOST_SETS else InputSets(2, True)


class InputRotation:
    """Calls a program with several sets of equal inputs, one after the other.

    Args:
        program: Takes the inputs, and returns results as arrays.
        inputs: The inputs, on the device. They are the first set.
        how: How many sets to make.
    """

    def __init__(self, program: Callable[..., Any], inputs: Sequence[jax.Array], how: InputSets):
        sets = [list(inputs), *(_copies(list(inputs)) for _ in range(how.sets - 1))]
        # A timed call must not include the work that a library does once for many calls.
        bound = getattr(program, "bound", None) or functools.partial(functools.partial, program)
        self._calls: list[Callable[[], Any]] = [bound(*arguments) for arguments in sets]
        self._results: collections.deque[Any] = collections.deque(maxlen=how.sets if how.sets > 1 else 0)
        self._next = 0

    def __call__(self) -> Any:
        """Starts the next call, and returns its results."""
        call = self._calls[self._next]
        self._next = (self._next + 1) % len(self._calls)
        results = call()
        self._results.append(results)
        return results


@jax.jit
def _copies(arrays: list[Any]) -> list[Any]:
    """Copies arrays to other memory: XLA never returns the memory of an input."""
    return [jnp.copy(array) for array in arrays]


LEAST_CALLS, MOST_CALLS = 2, 10
"""Calls that one round measures: the most, unless they take long."""

TRIES = 3
"""How often a round is tried while the device is throttled."""

MOST_DISCARDED = 0.5
"""Largest share of all samples that may be thrown away."""

_CALLS_S = 0.02
_AROUND_S = 0.004
"""Seconds that a round takes to start and end the recording, beside its calls."""

_COOLING_S = 0.2
_AWAKE = 0.9
_WAKING_S = 0.02
_WAKING_TRIES = 5


class ThrottledError(RecordError):
    """The device was throttled during most of the samples, so there is no time to record."""


class CudaMeasurement(Measurement):
    """A cell whose times the device takes, see :mod:`suites.timing.device_clock`.

    Args:
        program: A ``jax.jit`` function that has run before: takes the inputs of the cell, and returns its results.
        arguments: The inputs, on the device.
        device: The CUDA device.
        cache: ``hot`` or ``cold``, the state in which a call finds the cache.
        working_set_bytes: Bytes that a call reads and writes.
        clock: The clock; by default the best one that works on the device.
        management: Reads the state of the device; by default NVML, if it is there.

    Raises:
        Exception: The program fails.
    """

    def __init__(
        self,
        program: Callable[..., Any],
        arguments: Sequence[jax.Array],
        device: jax.Device,
        cache: str,
        working_set_bytes: int,
        *,
        clock: DeviceClock | None = None,
        management: gpu.DeviceManagement | None = None,
    ):
        self._program, self._arguments = program, list(arguments)
        self._sets = input_sets(cache, working_set_bytes)
        self._clock = device_clock(device) if clock is None else clock
        self._management = gpu.management_of(device) if management is None else management
        self._samples: list[CallTimes] = []
        self._clocks: list[float] = []
        self._discarded = 0
        self.method, self.cache = self._clock.method, cache
        jax.block_until_ready(program(*arguments))
        begin = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        call_s = time.perf_counter() - begin
        self._calls = max(LEAST_CALLS, min(MOST_CALLS, int(_CALLS_S / call_s)))
        self.round_s = _AROUND_S + (self._calls + WARM) * call_s

    def round(self) -> None:
        """Measures some calls. While the device is throttled it waits and tries again; such samples do not count."""
        rotation = InputRotation(self._program, self._arguments, self._sets)
        for _ in range(TRIES):
            self._wake(rotation)
            batch, states = self._batch(rotation)
            if not gpu.is_throttled(states, self._management.top_mhz if self._management else 0.0):
                self._samples += batch
                # Only the clocks while the device worked: without work it lowers its clock.
                self._clocks += [state.clock_mhz for state in states[1:-1] if state.clock_mhz is not None]
                return
            self._discarded += len(batch)
            time.sleep(_COOLING_S)

    def times(self) -> ProcessTimes:
        """Returns all samples so far.

        Raises:
            ThrottledError: More than half of the samples were thrown away, because the device was throttled.
            RecordError: There are no samples.
        """
        total = len(self._samples) + self._discarded
        if self._discarded > MOST_DISCARDED * total:
            raise ThrottledError(
                f"timing: unstable: the device was throttled during {self._discarded} of {total} samples, by heat, "
                "power or hardware. Time on a device that is cool, and that nobody else uses."
            )
        kernels = [sample.kernels_ns for sample in self._samples if sample.kernels_ns is not None]
        return ProcessTimes(
            samples_ns=tuple(sample.span_ns for sample in self._samples),
            kernels_ns=tuple(kernels) if len(kernels) == len(self._samples) else (),
            discarded=self._discarded,
            clock_mhz=quantile(self._clocks, 0.5) if self._clocks else None,
        )

    def on_other(self, inputs: Sequence[Any]) -> Any:
        """Runs the timed program on other inputs on the device; returns its results."""
        return self._program(*inputs)

    def _batch(self, rotation: InputRotation) -> tuple[list[CallTimes], list[gpu.DeviceState]]:
        """Returns the times of some calls, and the states of the device before, during and after them."""
        states = [self._state()]
        times = self._clock.times(
            rotation, self._calls, sweep=self._sets.sweep, during=lambda: states.append(self._state())
        )
        return times, [*states, self._state()]

    def _state(self) -> gpu.DeviceState:
        return gpu.NOTHING_KNOWN if self._management is None else self._management.state()

    def _wake(self, call: Callable[[], Any]) -> None:
        """Works until the clock of an idle device has risen again, or does not rise."""
        management = self._management
        if management is None:
            return
        if not management.is_awake:
            _work(call, _WAKING_TRIES * _WAKING_S)
            management.is_awake = True
        for _ in range(_WAKING_TRIES):
            clock = management.state().clock_mhz
            if clock is None or clock >= _AWAKE * management.top_mhz:
                return
            _work(call, _WAKING_S)


def _work(call: Callable[[], Any], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        jax.block_until_ready(call())
