"""Checks that a call gives the same result again: many times, on many threads, and after other calls.

A kernel with parallel loops runs with several numbers of threads. Then the order of additions may vary, and so may the
bits, but every result must be right.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import jax
import numba
import numpy as np

from reports import Status
from suites.cells.case import Case
from suites.cells.tables import KERNELS, TRANSFORMED_KERNELS
from suites.checks.drawn.session_choices import depth
from suites.checks.judging.call_loops import (
    MOST_S,
    REPEAT_S,
    CallLoop,
    LoopRun,
    calls_in,
    is_parallel,
    keeps_bits,
    large_size,
    prepare,
    until_concurrent,
)
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.checks.reruns import SETS, race_inputs, race_sizes
from suites.numerics.arrays import Inputs, fingerprint

CALLS = 5
"""Calls on small inputs."""

MOST_CALLS, MOST_CALLS_S = 70_000, 0.25
"""The most calls on small inputs (enough to overflow a counter of 16 bits), and their most seconds."""

THREADS = ((2,), (2, 4))
"""How many threads call at once, by the depth of the session."""

LOOP_S, PROCESSOR_S = 0.008, 0.15
"""Seconds of the loop of one thread alone, and seconds of processor time of all threads."""


@check(
    "repeat",
    sees="results that vary from call to call where they must not, and races between the threads of a kernel",
    cells=KERNELS,
)
def test_calls_repeat_their_bits(case: Case, evidence: Evidence) -> None:
    inputs = case.inputs()
    with case.placed():
        call = case.build(inputs)
        arguments = [jax.device_put(array) for array in inputs]
        results = [[np.asarray(leaf) for leaf in call(*arguments)] for _ in range(CALLS)]
        if keeps_bits(case) and len(set(map(fingerprint, results))) > 1:
            evidence.fail(Status.NONDETERMINISTIC, f"{CALLS} calls on the same inputs gave different results")
        for number, result in enumerate(results):
            evidence.require(judge_results(case.operator, inputs, result), f"call {number}")
        for size in race_sizes(case)[-1 - depth() :] if is_parallel(case) else (large_size(case),):
            _repeat_large(case, evidence, size)


def _repeat_large(case: Case, evidence: Evidence, size: int) -> None:
    sets = race_inputs(case, size) if is_parallel(case) else case.samples(SETS, size)
    loop = prepare(case, sets, case.device)
    for turn, inputs in enumerate(sets):
        evidence.require(judge_results(case.operator, inputs, [np.asarray(leaf[turn]) for leaf in loop.expected]))
    count = calls_in(loop, REPEAT_S / 4, most=1 << 10)
    for threads in _thread_counts(case):
        with _threads(threads):
            run = until_concurrent(loop, count)
        where = f"size {size} with {threads} threads"
        _require_same(case, evidence, sets, run, count, where)


def _require_same(case: Case, evidence: Evidence, sets: Sequence[Inputs], run: LoopRun, count: int, where: str) -> None:
    """Requires that all calls of a loop gave the same results as alone; a failure names the first other result."""
    if not run.differing:
        return
    verdict = judge_results(case.operator, sets[run.first % len(sets)], run.results)
    evidence.fail(
        Status.NONDETERMINISTIC,
        f"{where}: call {run.first}: another result than the same call alone ({run.differing} of {count} such "
        f"calls){f': {verdict.words}' if verdict.words else ''}",
    )


def _thread_counts(case: Case) -> tuple[int, ...]:
    """Returns the numbers of threads to try: only the largest, for a kernel without parallel loops."""
    most = int(numba.config.NUMBA_NUM_THREADS)
    return (most,) if depth() == 0 or not is_parallel(case) else tuple(sorted({1, min(3, most), most}))


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Sets the number of threads of the parallel loops that this thread starts."""
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)


@check(
    "endurance",
    sees="results that change after many calls, such as when a counter overflows or memory is used up",
    cells=TRANSFORMED_KERNELS,
)
def test_results_stay_the_same_for_thousands_of_calls(case: Case, evidence: Evidence) -> None:
    sets = case.samples()
    with case.placed():
        loop = prepare(case, sets, case.device)
        evidence.require_elements(case.operator, sets, loop.expected, "call")
        count = calls_in(loop, MOST_CALLS_S, most=MOST_CALLS)
        _require_same(case, evidence, sets, loop.run(count), count, "in a row")


@check(
    "threads",
    sees="state shared by calls that overlap on one device; shard overlaps calls on several",
    cells=KERNELS,
)
def test_concurrent_calls_are_right(case: Case, evidence: Evidence) -> None:
    """Runs loops of calls on several threads, until they have computed for long enough.

    Small inputs may use a shared scratch memory, while large ones allocate their own.
    """
    for size in sorted({large_size(case), case.operator.sizes.check[-1]} if depth() else {large_size(case)}):
        _overlap_at(case, evidence, size)


def _overlap_at(case: Case, evidence: Evidence, size: int) -> None:
    with case.placed():
        samples = case.samples(SETS * max(THREADS[depth()]), size)
        own = [samples[first : first + SETS] for first in range(0, len(samples), SETS)]
        devices = jax.devices(case.platform) if case.platform == "cuda" else [case.device]
        loops = [prepare(case, sets, devices[thread % len(devices)]) for thread, sets in enumerate(own)]
        for thread in (0, len(loops) - 1):
            alone = [np.asarray(leaf[0]) for leaf in loops[thread].expected]
            evidence.require(judge_results(case.operator, own[thread][0], alone), f"thread {thread} alone")
        count = calls_in(loops[0], LOOP_S, most=1 << 12)
        for threads in THREADS[depth()]:
            _overlap(case, evidence, own, loops[:threads], count)


def _overlap(case: Case, evidence: Evidence, own: list[list[Inputs]], loops: Sequence[CallLoop], count: int) -> None:
    begin, processor = time.perf_counter(), time.process_time()
    # JAX's settings of precision and device belong to a thread: a compiled program needs neither.
    with ThreadPoolExecutor(len(loops)) as pool:
        while time.perf_counter() - begin <= MOST_S and time.process_time() - processor < PROCESSOR_S:
            together = Barrier(len(loops))
            runs = pool.map(lambda loop, together=together: (together.wait(), loop.run(count))[1], loops)
            for thread, run in enumerate(list(runs)):
                _require_same(case, evidence, own[thread], run, count, f"thread {thread}")
