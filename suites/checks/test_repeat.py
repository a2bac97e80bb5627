"""Checks that a deterministic kernel gives equal bits in every call on equal inputs, however many threads it has.

Large inputs show races, which take two threads in one place. A kernel with parallel loops runs them with each of
several numbers of threads. There the order of additions may vary, and so may bits, but every result must be right.
"""

import contextlib
import time
from collections.abc import Iterator

import jax
import numba
import numpy as np

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.tables.calls import KERNELS
from suites.checks.drawn.depth import depth
from suites.checks.judging.bits import fingerprint
from suites.checks.judging.call_loops import CallLoop, Turns, calls_in, keeps_bits, large_size, long_size, prepare
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.pauses import Pauses
from suites.checks.register import check
from suites.numerics.precision import precision

CALLS = 5
"""Calls on small inputs."""

SETS = 2
"""Large inputs that are taken in turn, as in :mod:`suites.checks.test_threads`."""

SECONDS = 0.04
"""How long the calls on large inputs take at least, for each number of threads."""

PAUSES = 300
"""How often threads of a parallel loop are paused in its midst."""

MOST_SECONDS = 2.0
"""How long the calls take at most, on a machine that is too busy to pause its threads so often."""


@check(
    "repeat",
    sees="results that vary from call to call where they must not, and races between the threads of a kernel",
    cells=KERNELS,
    order=20,
)
def test_calls_repeat_their_bits(case: Case, evidence: Evidence) -> None:
    inputs = case.inputs()
    with precision(case.dtype), jax.default_device(case.device):
        call = case.operator.build(case.backend, inputs)
        arguments = [jax.device_put(array) for array in inputs]
        results = [[np.asarray(leaf) for leaf in call(*arguments)] for _ in range(CALLS)]
        if keeps_bits(case) and len(set(map(fingerprint, results))) > 1:
            evidence.fail(Status.NONDETERMINISTIC, f"{CALLS} calls on the same inputs gave different results")
        for number, result in enumerate(results):
            evidence.require(judge_results(case.operator, inputs, result), f"call {number}")
        sizes = {large_size(case)}
        if _is_parallel(case):
            sizes = {long_size(case)} if depth() == 0 else {*sizes, long_size(case)}
        for size in sorted(sizes):
            _repeat_large(case, evidence, size)


def _repeat_large(case: Case, evidence: Evidence, size: int) -> None:
    operator = case.operator
    sets = [operator.sample(case.dtype, size, SEED + turn) for turn in range(SETS)]
    loop = prepare(case, sets, case.device)
    for turn, inputs in enumerate(sets):
        evidence.require(judge_results(operator, inputs, [np.asarray(leaf[turn]) for leaf in loop.expected]))
    count = calls_in(loop, SECONDS / 4, most=1 << 10)
    for threads in _thread_counts(case):
        with _threads(threads):
            turns = _until_concurrent(loop, count, threads)
        if not turns.differing:
            continue
        where = f"with {threads} threads: " if threads else ""
        evidence.require(judge_results(operator, sets[turns.first % SETS], turns.results), f"{where}call {turns.first}")
        evidence.fail(
            Status.NONDETERMINISTIC,
            f"{where}{turns.differing} of {count} calls of size {size} gave another result than the first on the same "
            "inputs",
        )


def _until_concurrent(loop: CallLoop, count: int, threads: int) -> Turns:
    """Runs a loop again and again, until a call differs or its threads were paused often enough.

    On a busy machine the second thread of a parallel loop often begins when the first has ended.
    """
    begin, processor, pauses = time.perf_counter(), time.process_time(), Pauses()
    with pauses if threads > 1 else contextlib.nullcontext():
        while True:
            turns = loop.turns(count)
            passed = time.perf_counter() - begin
            enough = min(passed, time.process_time() - processor) >= SECONDS
            enough &= threads < 2 or pauses.count >= PAUSES or not pauses.possible
            if turns.differing or enough or passed >= MOST_SECONDS:
                return turns


def _thread_counts(case: Case) -> tuple[int, ...]:
    """Returns the numbers of threads to try; one 0, for the number as it is, if the kernel has no parallel loop."""
    most = int(numba.config.NUMBA_NUM_THREADS)
    if depth() == 0 and _is_parallel(case):
        return (most,)
    return tuple(sorted({1, min(2, most), most})) if _is_parallel(case) else (0,)


def _is_parallel(case: Case) -> bool:
    return case.platform == "cpu" and case.operator.kernel(case.backend).parallel


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Gives the parallel loops that this thread starts ``count`` threads; 0 changes nothing."""
    before = numba.get_num_threads() if count else 0
    if count:
        numba.set_num_threads(count)
    try:
        yield
    finally:
        if count:
            numba.set_num_threads(before)
