"""Times a cell on a CUDA device, round by round: hot or cold, and without the samples of a throttled device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from reports import ProcessTimes, RecordError
from reports.records.quantiles import quantile
from suites.bench import two_clocks
from suites.bench.device_activities import CallTimes
from suites.bench.device_clock import WARM, DeviceClock, device_clock
from suites.bench.device_state import NOTHING_KNOWN, DeviceManagement, DeviceState, is_throttled
from suites.bench.gpu import management_of
from suites.bench.input_rotation import InputRotation, turns
from suites.bench.measurement import Measurement

LEAST_CALLS, MOST_CALLS = 2, 10
"""Calls that one round measures: the most, unless they take long."""

TRIES = 3
"""How often a round is tried while the device is throttled."""

MOST_DISCARDED = 0.5
"""Largest share of all samples that may be thrown away."""

_CALLS_S = 0.02
_AROUND_S = 0.004
"""What a round takes beside the calls, to start and end the recording."""

_COOLING_S = 0.2
_AWAKE = 0.9
_WAKING_S = 0.02
_WAKING_TRIES = 5


class ThrottledError(RecordError):
    """The device was throttled during most of the samples, so there is no time to record."""


class CudaMeasurement(Measurement):
    """A cell whose times the device takes, see :mod:`suites.bench.device_clock`.

    Args:
        program: A ``jax.jit`` function that has run before: takes the inputs of the cell, and returns its results.
        arguments: The inputs, on the device.
        device: The CUDA device.
        cache: ``hot`` or ``cold``, one of the states that :func:`suites.bench.gpu.cache_states` names.
        working_set_bytes: Bytes that a call reads and writes.
        clock: What measures; by default the best clock of the device.
        management: What reads the state of the device; by default NVML, if it is there.

    Raises:
        ValueError: The cache has another state.
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
        management: DeviceManagement | None = None,
    ):
        self._program, self._arguments = program, list(arguments)
        self._turns = turns(cache, working_set_bytes)
        self._clock = device_clock(device) if clock is None else clock
        self._management = management_of(device) if management is None else management
        self._samples: list[CallTimes] = []
        self._clocks: list[float] = []
        self._discarded = 0
        self.method, self.cache = self._clock.method, cache
        jax.block_until_ready(program(*arguments))
        begin = two_clocks.wall()
        jax.block_until_ready(program(*arguments))
        call_s = two_clocks.wall() - begin
        self._calls = max(LEAST_CALLS, min(MOST_CALLS, int(_CALLS_S / call_s)))
        self.round_s = _AROUND_S + (self._calls + WARM) * call_s

    def round(self) -> None:
        """Measures some calls. While the device is throttled it waits and tries again; such samples do not count."""
        rotation = InputRotation(self._program, self._arguments, self._turns)
        for _ in range(TRIES):
            self._wake(rotation)
            found, states = self._batch(rotation)
            if not is_throttled(states, self._management.top_mhz if self._management else 0.0):
                self._samples += found
                # While the device worked; before and after it may have slowed down for lack of work.
                self._clocks += [state.clock_mhz for state in states[1:-1] if state.clock_mhz is not None]
                return
            self._discarded += len(found)
            time.sleep(_COOLING_S)

    def times(self) -> ProcessTimes:
        """Returns all samples so far.

        Raises:
            ThrottledError: More than half of the samples were thrown away, because the device was throttled.
            RecordError: There are no samples.
        """
        taken = len(self._samples) + self._discarded
        if self._discarded > MOST_DISCARDED * taken:
            raise ThrottledError(
                f"timing: unstable: the device was throttled during {self._discarded} of {taken} samples, by heat, "
                "power or hardware. Time on a device that is cool, and that nobody else uses."
            )
        kernels = [sample.kernels_ns for sample in self._samples if sample.kernels_ns is not None]
        return ProcessTimes(
            samples_ns=[sample.span_ns for sample in self._samples],
            kernels_ns=kernels if len(kernels) == len(self._samples) else [],
            discarded=self._discarded,
            clock_mhz=quantile(self._clocks, 0.5) if self._clocks else None,
        )

    def on_other(self, inputs: Sequence[Any]) -> Any:
        """Runs the timed program on other inputs on the device; returns its results."""
        return self._program(*inputs)

    def _batch(self, rotation: InputRotation) -> tuple[list[CallTimes], list[DeviceState]]:
        """Times of some calls, and the states of the device before, during and after them."""
        states = [self._state()]
        found = self._clock.times(
            rotation, self._calls, sweep=self._turns.sweep, during=lambda: states.append(self._state())
        )
        return found, [*states, self._state()]

    def _state(self) -> DeviceState:
        return NOTHING_KNOWN if self._management is None else self._management.state()

    def _wake(self, call: Callable[[], Any]) -> None:
        """Works until a clock that has fallen for lack of work is up again, or does not rise."""
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
    end = two_clocks.wall() + seconds
    while two_clocks.wall() < end:
        jax.block_until_ready(call())
