"""Measures workloads in turn: each of them once in every round, in an order that rotates."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

Clock = Callable[[], int]


class Timed(Protocol):
    """A program to time, see :class:`suites.dispatch.modes.Workload`."""

    @property
    def run(self) -> Callable[[int], None]: ...

    @property
    def calls(self) -> int: ...


def rotation(names: Sequence[str], round_index: int, seed: int) -> list[str]:
    """Returns the order of a round. Within ``len(names)`` rounds, each name has each position once.

    After each such cycle, a new order is drawn. So the neighbours of a name change from cycle to cycle.
    """
    cycle, shift = divmod(round_index, max(1, len(names)))
    order = list(names)
    random.Random(f"{seed}/{cycle}").shuffle(order)
    return order[shift:] + order[:shift]


def choose_iterations(run: Callable[[int], None], target_ns: float, clock: Clock = time.perf_counter_ns) -> int:
    """Returns the number of iterations that take about ``target_ns``, at least 1.

    The number doubles until a measurement takes a quarter of the target. The shortest of several measurements counts,
    because an interruption only makes one longer. This matters on a machine with other users: a sample that is longer
    than a time slice is always interrupted, a shorter one rarely. So all samples must be equally long.
    """
    iterations = 1
    while (elapsed := _shortest_ns(run, iterations, target_ns / 4, clock)) < target_ns / 4:
        iterations *= 2
    return max(1, round(iterations * target_ns / max(1, elapsed)))


def measure(
    workloads: Mapping[str, Mapping[str, Timed]],
    iterations: Mapping[str, Mapping[str, int]],
    rounds: int,
    seed: int,
    clock: Clock = time.perf_counter_ns,
    on_round: Callable[[int], None] = lambda _: None,
) -> dict[str, dict[str, list[float]]]:
    """Times every workload once in every round.

    The workloads of one mode run one after the other, because they are compared with each other.

    Args:
        workloads: By mode, then by path.
        iterations: Iterations of one sample, by mode, then by path.
        rounds: Samples taken of each workload.
        seed: Seed of the order.
        clock: Returns nanoseconds, monotonic.
        on_round: Called with the number of completed rounds.

    Returns:
        Nanoseconds per call, by mode and path; entry ``r`` of every list belongs to round ``r``.
    """
    samples: dict[str, dict[str, list[float]]] = {
        mode: {path: [] for path in paths} for mode, paths in workloads.items()
    }
    with _garbage_kept():
        for round_index in range(rounds):
            for mode in rotation(list(workloads), round_index, seed):
                for path in rotation(list(workloads[mode]), round_index, seed + 1):
                    workload, count = workloads[mode][path], iterations[mode][path]
                    elapsed = _elapsed_ns(workload.run, count, clock)
                    samples[mode][path].append(elapsed / (count * workload.calls))
            on_round(round_index + 1)
            gc.collect()
    return samples


def _shortest_ns(run: Callable[[int], None], iterations: int, enough_ns: float, clock: Clock) -> int:
    """Returns the shortest of five measurements, or the first that is shorter than ``enough_ns``."""
    shortest = _elapsed_ns(run, iterations, clock)
    for _ in range(4):
        if shortest < enough_ns:
            break
        shortest = min(shortest, _elapsed_ns(run, iterations, clock))
    return shortest


def _elapsed_ns(run: Callable[[int], None], iterations: int, clock: Clock) -> int:
    start = clock()
    run(iterations)
    return clock() - start


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Turns automatic garbage collection off. A collection on request ignores all older objects, and so is short."""
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()
