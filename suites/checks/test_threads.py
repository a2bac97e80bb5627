"""Checks that threads that call a kernel at once, each on its own inputs, all get the results that they get alone.

Each thread runs a loop of calls that takes milliseconds, on inputs as long as ``large`` has them. The check goes on
until the loops of two threads have overlapped for long enough, and says so if they never did.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import jax
import numpy as np

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.tables.calls import KERNELS
from suites.checks.drawn.depth import depth
from suites.checks.judging.call_loops import CallLoop, Turns, calls_in, large_size, prepare
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.pauses import Pauses
from suites.checks.register import check
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision

THREADS = ((2,), (2, 4), (2, 4))
"""How many threads call at once, by the depth of the session."""

SETS = 2
"""Inputs that a thread takes in turn."""

SECONDS = 0.008
"""How long the loop of a thread takes when nothing else runs."""

OVERLAP = 0.03
"""Seconds for which loops of two threads must have overlapped, for each number of threads."""

PAUSES = 250
"""Pauses of threads in their loops, for each number of threads."""

PROCESSOR_SECONDS = 0.1
"""How long the threads must have computed: on a busy machine many pauses meet a thread that waits."""

MOST_SECONDS = 2.0
"""The most time to reach all three: a busy machine may not."""


@check(
    "threads",
    sees="state shared by calls that overlap on one device; shard overlaps those of several",
    cells=KERNELS,
    order=180,
)
def test_concurrent_calls_are_right(case: Case, evidence: Evidence) -> None:
    with precision(case.dtype), jax.default_device(case.device):
        size = large_size(case)
        own = [
            [case.operator.sample(case.dtype, size, SEED + SETS * thread + turn) for turn in range(SETS)]
            for thread in range(max(THREADS[depth()]))
        ]
        _compare(case, evidence, own)


def _compare(case: Case, evidence: Evidence, own: list[list[Inputs]]) -> None:
    """Compares the results of all calls with the results of the same calls alone."""
    devices = jax.devices(case.platform) if case.platform == "cuda" else [case.device]
    loops = [prepare(case, sets, devices[thread % len(devices)]) for thread, sets in enumerate(own)]
    for thread in (0, len(loops) - 1):
        alone = [np.asarray(leaf[0]) for leaf in loops[thread].expected]
        evidence.require(judge_results(case.operator, own[thread][0], alone), f"thread {thread} alone")
    count = calls_in(loops[0], SECONDS, most=1 << 12)
    for threads in THREADS[depth()]:
        overlapped, begin, processor = 0.0, time.perf_counter(), time.process_time()
        with Pauses() as pauses:
            while True:
                found, seconds = _run_together(loops[:threads], count)
                for thread, turns in enumerate(found):
                    _require_none(case, evidence, own[thread], thread, turns, count)
                overlapped += seconds
                enough = overlapped >= OVERLAP and (pauses.count >= PAUSES or not pauses.possible)
                enough &= time.process_time() - processor >= PROCESSOR_SECONDS
                if enough or time.perf_counter() - begin > MOST_SECONDS:
                    break
        if not overlapped:
            evidence.fail(Status.UNCHECKED, f"the calls of {threads} threads never overlapped in {MOST_SECONDS} s")


def _run_together(loops: Sequence[CallLoop], count: int) -> tuple[list[Turns], float]:
    """Runs each loop in its own thread; returns what each found, and for how many seconds two of them ran."""
    together = Barrier(len(loops))

    def work(loop: CallLoop) -> tuple[Turns, float, float]:
        together.wait()
        start = time.perf_counter()
        turns = loop.turns(count)
        return turns, start, time.perf_counter()

    # JAX's settings of precision and device belong to a thread: a compiled program needs neither.
    with ThreadPoolExecutor(len(loops)) as pool:
        ended = list(pool.map(work, loops))
    return [turns for turns, _, _ in ended], overlap([(start, end) for _, start, end in ended])


def overlap(spans: Sequence[tuple[float, float]]) -> float:
    """Returns for how long at least two of these spans of time, each a begin and an end, were open at once."""
    events = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    total, open_, since = 0.0, 0, 0.0
    for moment, change in events:
        if open_ >= 2:
            total += moment - since
        open_, since = open_ + change, moment
    return total


def _require_none(case: Case, evidence: Evidence, sets: list[Inputs], thread: int, turns: Turns, count: int) -> None:
    """Requires that no call of a thread gave other results than alone; otherwise says what the first one gave."""
    if not turns.differing:
        return
    where = f"call {turns.first} of thread {thread}"
    evidence.require(judge_results(case.operator, sets[turns.first % len(sets)], turns.results), where)
    evidence.fail(
        Status.NONDETERMINISTIC,
        f"{where}: another result than the same call alone ({turns.differing} of {count} such calls)",
    )
