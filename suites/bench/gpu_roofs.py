"""Measures the memory bandwidth of a CUDA device: the roof that kernels on it are compared with.

A kernel is compared with the best of several ways to move as many bytes, from and to where its data lies, with the same
share of writes: a device reads faster than it writes, and faster still if it need not change between both. The least
time counts, since this is a limit and no estimate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from suites.bench import gpu, two_clocks
from suites.bench.bandwidth import Roof
from suites.bench.cupti_trace import cupti_trace
from suites.bench.device_clock import device_clock
from suites.bench.instruments import PREFIX
from suites.bench.stream_kernel import PATTERNS, SHAPES, Pattern, Shape, StreamKernels

_SAME_SHARE = 0.02
"""Patterns whose shares of writes differ by less are taken as the same."""

_LAUNCHES = 8
_WARM = 2
_MOST_BYTES = 1 << 30
_ALIGNMENT = 4096


Key = tuple[Pattern, int, str]
"""Pattern, bytes of a working set, and ``hot`` or ``cold``."""


class Transfer(NamedTuple):
    """One launch to measure.

    Attributes:
        shape: How the kernel is launched.
        begin: Where its data lies, in bytes from the start of the memory.
        counts: Whether its time counts; the first launches of a shape only warm up.
    """

    shape: Shape
    begin: int
    counts: bool


def roof(read_bytes: int, written_bytes: int, cache: str) -> Roof:
    """Returns the bandwidth that no kernel can exceed which reads and writes so many bytes.

    Args:
        read_bytes: Bytes that a call reads.
        written_bytes: Bytes that it writes.
        cache: ``hot`` or ``cold``.
    """
    size = max(1, read_bytes + written_bytes)
    level, sizes = working_sets(size, cache, gpu.l2_bytes())
    patterns = patterns_around(written_bytes / size)
    rates = measured_rates(jax.devices("cuda")[0]).of(
        [(pattern, each, state) for pattern in patterns for each, state in sizes]
    )
    best = max(rates, key=lambda key: rates[key].bandwidth)
    return Roof(rates[best].bandwidth, f"{best[0].label}, {level}{rates[best].note}")


def patterns_around(written: float) -> tuple[Pattern, ...]:
    """Returns the pattern with this share of writes, or the next ones with fewer and with more.

    The bandwidth between two patterns is taken to be at most the greater of theirs.
    """
    below = max((pattern for pattern in PATTERNS if pattern.written <= written), key=lambda pattern: pattern.written)
    above = min((pattern for pattern in PATTERNS if pattern.written >= written), key=lambda pattern: pattern.written)
    if written - below.written < _SAME_SHARE:
        return (below,)
    return (above,) if above.written - written < _SAME_SHARE else (below, above)


def working_sets(size: int, cache: str, l2: int) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Returns where the data of a cell lies, and which working sets are measured for its roof, hot or cold.

    - Hot, in the cache: the sizes that fit, so that every cell there has one roof, and the size of the cell.
    - Hot, but larger than the cache: some of it is still there from the call before. How much depends on the size.
    - Cold: large sizes. What a small cell writes may stay in the cache until it has ended, so its own size counts too.

    Args:
        size: Bytes that a call reads and writes.
        cache: ``hot`` or ``cold``.
        l2: Size of the cache in bytes.
    """
    own = min(size, _MOST_BYTES)
    memory = tuple((factor * gpu.COLD_FROM_L2 * l2, "cold") for factor in (1, 2))
    if cache == "cold":
        return "memory", (*memory, (own, "cold"))
    if size <= l2:
        inside = tuple((sixteenths * l2 // 16, "hot") for sixteenths in (1, 2, 3, 4, 6, 8, 10, 12))
        return "L2 cache", (*inside, (own, "hot"))
    return "L2 cache and memory", (*memory, (own, "hot"))


def transfers(size: int, state: str, l2: int) -> tuple[int, list[Transfer]]:
    """Returns how much memory a measurement needs, and its launches in order.

    Hot launches all move the same data. Cold ones move on, through several times as much as the cache holds.

    Args:
        size: Bytes that one launch moves.
        state: ``hot`` or ``cold``.
        l2: Size of the cache in bytes.
    """
    apart = -(-size // _ALIGNMENT) * _ALIGNMENT
    places = 1 if state == "hot" else max(2, -(-gpu.COLD_FROM_L2 * l2 // apart))
    launches = [(shape, index >= _WARM) for shape in SHAPES for index in range(_WARM + _LAUNCHES)]
    return places * apart, [
        Transfer(shape, apart * (index % places), counts) for index, (shape, counts) in enumerate(launches)
    ]


class Rate(NamedTuple):
    """A measured bandwidth.

    Attributes:
        bandwidth: Bytes per second.
        note: How it was measured, if not as usual.
    """

    bandwidth: float
    note: str = ""


class MeasuredRates:
    """Bandwidths that were measured on a device, each once.

    Args:
        device: A CUDA device.
        measure: Takes the device and some keys, and measures each.
    """

    def __init__(self, device: jax.Device, measure: Callable[[jax.Device, Sequence[Key]], list[Rate]] | None = None):
        self._device = device
        self._measure = _measured if measure is None else measure
        self._known: dict[Key, Rate] = {}

    def of(self, keys: Sequence[Key]) -> dict[Key, Rate]:
        """Returns the bandwidth of each; measures what is not known yet.

        Args:
            keys: Pattern, bytes of a working set, and ``hot`` or ``cold``.
        """
        missing = [key for key in dict.fromkeys(keys) if key not in self._known]
        if missing:
            self._known |= dict(zip(missing, self._measure(self._device, missing), strict=True))
        return {key: self._known[key] for key in keys}


@functools.cache
def measured_rates(device: jax.Device) -> MeasuredRates:
    """Returns the bandwidths of a device in this process."""
    return MeasuredRates(device)


def _measured(device: jax.Device, keys: Sequence[Key]) -> list[Rate]:
    """By the tuned kernel; else by what XLA's own code reaches, with a note."""
    try:
        return _tuned_rates(device, keys)
    except Exception as error:  # no cuda-core, no compiler, too little memory; times are right all the same
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        note = f", by XLA's own code, since the tuned kernel does not run ({reason})"
        return [Rate(_xla_rate(pattern, size, device), note) for pattern, size, _ in keys]


def _tuned_rates(device: jax.Device, keys: Sequence[Key]) -> list[Rate]:
    l2 = gpu.l2_bytes()
    measure = _by_cupti if device_clock(device).method == "cupti" else _by_wall
    plans = [transfers(size, state, l2) for _, size, state in keys]
    streams = StreamKernels(device, max(needed for needed, _ in plans))
    return [
        Rate(measure(streams, pattern, size, launches))
        for (pattern, size, _), (_, launches) in zip(keys, plans, strict=True)
    ]


def _by_cupti(streams: StreamKernels, pattern: Pattern, size: int, launches: Sequence[Transfer]) -> float:
    moved: list[int] = []

    def run() -> None:
        moved.extend(streams.launch(pattern, each.shape, size, each.begin) for each in launches)
        streams.wait()

    # One stream: they ran in the order of the launches.
    activities = sorted(
        (each for each in cupti_trace().collect(run) if PREFIX in each.name), key=lambda each: each.start_ns
    )
    if len(activities) != len(launches):
        raise RuntimeError(f"CUPTI saw {len(activities)} of {len(launches)} launches that measure the bandwidth")
    timed = zip(launches, moved, activities, strict=True)
    return max(bytes_ / (1e-9 * (each.end_ns - each.start_ns)) for launch, bytes_, each in timed if launch.counts)


def _by_wall(streams: StreamKernels, pattern: Pattern, size: int, launches: Sequence[Transfer]) -> float:
    """Without CUPTI: many launches in a row, so that the time to start one hardly counts."""
    best = 0.0
    for shape in SHAPES:
        each = [launch for launch in launches if launch.shape == shape]
        streams.launch(pattern, shape, size, each[0].begin)
        streams.wait()
        start = two_clocks.wall()
        moved = sum(streams.launch(pattern, shape, size, launch.begin) for launch in each)
        streams.wait()
        best = max(best, moved / (two_clocks.wall() - start))
    return best


def _xla_rate(pattern: Pattern, size: int, device: jax.Device) -> float:
    """What XLA's own code reaches, hot or cold as the size has it."""
    count = max(1, size // (4 * (pattern.reads + pattern.writes)))

    @jax.jit
    def program(number: jax.Array, *arrays: jax.Array) -> Any:
        if not pattern.writes:
            return jnp.max(arrays[0])
        total = sum(arrays, start=jnp.broadcast_to(number, (count,)))
        return [total + index for index in range(pattern.writes)]

    with jax.enable_x64(False), jax.default_device(device):
        number = jnp.float32(1)
        arrays = [jnp.full(count, index, jnp.float32) for index in range(pattern.reads)]
        jax.block_until_ready(arrays)
        times = device_clock(device).times(lambda: program(number, *arrays), _LAUNCHES)
    return 4 * count * (pattern.reads + pattern.writes) / (1e-9 * min(each.span_ns for each in times))
