"""Times single calls from Python, up to the end of their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import msgspec

from reports import ProcessTimes
from suites.bench import two_clocks
from suites.bench.measurement import Measurement
from suites.bench.timed_programs import Programs

_TRIES = 3
_ALONE_S = 2e-4
"""Single calls are repeated in a round up to about this time, at most three times."""


class SingleCalls(Measurement):
    """Times single calls from Python, up to the end of their work: the only way for a cell without a loop.

    A call gets memory for its outputs as in any program. A warm call takes over the memory of the outputs before.

    Args:
        programs: The compiled programs.
        arguments: The inputs on the device.
    """

    method = "wall"
    cache = "hot"

    def __init__(self, programs: Programs, arguments: Sequence[jax.Array]) -> None:
        self._programs, self._arguments = programs, list(arguments)
        self._old = programs.old() if programs.warm is not None else []
        self.cold_ns: list[float] = []
        self.warm_ns: list[float] = []
        self._cold(), self._warm()
        least = min(self._cold() for _ in range(_TRIES))
        self._calls = max(1, min(_TRIES, round(_ALONE_S / least)))
        self.round_s = self._calls * least * (2 if programs.warm is not None else 1)

    def round(self) -> None:
        """Makes some calls of each kind."""
        for _ in range(self._calls):
            self.cold_ns.append(1e9 * self._cold())
            if self._programs.warm is not None:
                self.warm_ns.append(1e9 * self._warm())

    def times(self) -> ProcessTimes:
        """Returns the samples."""
        return ProcessTimes(samples_ns=self.cold_ns, alone_ns=self.cold_ns, alone_warm_ns=self.warm_ns)

    def on_other(self, inputs: Sequence[Any]) -> Any:
        """Makes a call on other inputs."""
        return self._programs.single(*inputs)

    def _cold(self) -> float:
        return _timed(self._programs.single, self._arguments)

    def _warm(self) -> float:
        if self._programs.warm is None:
            return 0.0
        start = two_clocks.wall()
        self._old = self._programs.warm(self._old, *self._arguments)
        jax.block_until_ready(self._old)
        return two_clocks.wall() - start


class BesideSingleCalls(Measurement):
    """Takes the times of another measurement, and times single calls beside it.

    Args:
        other: The measurement.
        single: The single calls.
    """

    def __init__(self, other: Measurement, single: SingleCalls) -> None:
        self._other, self._single = other, single
        self.method, self.cache, self.loops = other.method, other.cache, other.loops
        self.round_s = other.round_s + single.round_s

    def round(self) -> None:
        """Takes a round of each."""
        self._other.round()
        self._single.round()

    def times(self) -> ProcessTimes:
        """Returns the samples of both."""
        return msgspec.structs.replace(self._other.times(), alone_ns=self._single.cold_ns)

    def on_other(self, inputs: Sequence[Any]) -> Any:
        """Runs the timed program on other inputs."""
        return self._other.on_other(inputs)


def _timed(function: Callable[..., Any], arguments: Sequence[Any]) -> float:
    start = two_clocks.wall()
    results = function(*arguments)
    jax.block_until_ready(results)
    return two_clocks.wall() - start
