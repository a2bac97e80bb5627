"""Workloads in, nanoseconds per call out: every workload once a round, in rotating order."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

Clock = Callable[[], int]


class Timed(Protocol):
    """What is timed, see :class:`suites.dispatch.modes.Workload`."""

    @property
    def run(self) -> Callable[[int], None]: ...

    @property
    def calls(self) -> int: ...


def rotation(names: Sequence[str], round_index: int, seed: int) -> list[str]:
    """The order of a round: within ``len(names)`` rounds each name takes each position once.

    The cyclic order, hence who follows whom, is drawn again after every such cycle.
    """
    cycle, shift = divmod(round_index, max(1, len(names)))
    order = list(names)
    random.Random(f"{seed}/{cycle}").shuffle(order)
    return order[shift:] + order[:shift]


def choose_iterations(run: Callable[[int], None], target_ns: float, clock: Clock = time.perf_counter_ns) -> int:
    """How many iterations take about ``target_ns``, and at least 1.

    The count doubles until a measurement takes a quarter of the target. Of several measurements the shortest counts,
    because what interrupts one only ever makes it longer. That matters: where others use the machine, a sample that is
    longer than a time slice is always interrupted and a shorter one rarely, so samples must be equally long to compare.
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

    The workloads of one mode directly follow each other, because they are what is compared.

    Args:
        workloads: By mode, then by path.
        iterations: Iterations of one measurement, by mode, then by path.
        rounds: Samples taken of each workload.
        seed: Of the order.
        clock: Monotonic nanoseconds.
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
    """The shortest of up to five measurements; none is repeated once one took less than ``enough_ns``."""
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
    """Collects no garbage but on request, and then only what appeared since: the rest makes a collection take long."""
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
