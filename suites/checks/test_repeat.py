"""Checks that a deterministic kernel gives equal bits in every call on equal inputs, however many threads it has.

Large inputs show races, which take two threads in one place. A kernel with parallel loops runs them with each of several
numbers of threads. There the order of additions may vary, and so may bits, but every result must be right.
"""

import contextlib
from collections.abc import Iterator

import jax
import numba
import numpy as np

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.tables.calls import KERNELS
from suites.checks.judging.bits import fingerprint
from suites.checks.judging.call_loops import calls_in, keeps_bits, long_size, prepare
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision

CALLS = 5
"""Calls on small inputs."""

SETS = 2
"""Large inputs that are taken in turn, as in :mod:`suites.checks.test_threads`."""

SECONDS = 0.06
"""How long the calls on large inputs take, for each number of threads."""


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
        for threads in _thread_counts(case):
            with _threads(threads):
                _repeat_large(case, evidence, f"{threads} threads: " if threads else "")


def _repeat_large(case: Case, evidence: Evidence, where: str) -> None:
    operator = case.operator
    size = long_size(operator, case.dtype)
    sets = [operator.sample(case.dtype, size, SEED + turn) for turn in range(SETS)]
    loop = prepare(case, sets, case.device)
    evidence.require(judge_results(operator, sets[0], [np.asarray(leaf[0]) for leaf in loop.expected]), where + "first")
    count = calls_in(loop, SECONDS, most=1 << 10)
    turns = loop.turns(count)
    if turns.differing:
        evidence.require(judge_results(operator, sets[turns.first % SETS], turns.results), f"{where}call {turns.first}")
        evidence.fail(
            Status.NONDETERMINISTIC,
            f"{where}{turns.differing} of {count} calls with {size} elements gave another result than the first on "
            "the same inputs",
        )


def _thread_counts(case: Case) -> tuple[int, ...]:
    """Returns the numbers of threads to try; one 0, for the number as it is, if the kernel has no parallel loop."""
    most = int(numba.config.NUMBA_NUM_THREADS)
    is_parallel = case.platform == "cpu" and case.operator.kernel(case.backend).parallel
    return tuple(sorted({1, min(2, most), most})) if is_parallel else (0,)


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
