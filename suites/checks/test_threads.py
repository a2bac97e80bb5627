"""Checks that threads that call a kernel at once, each on its own inputs, all get their true results."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import jax

from suites.cells.case import SEED, Case
from suites.cells.tables.calls import KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision

THREADS = 4
CALLS = 8


@check(
    "threads",
    sees="state shared by calls that overlap on one device; shard overlaps those of several",
    cells=KERNELS,
    order=180,
)
def test_concurrent_calls_are_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    own = [operator.sample(case.dtype, case.size, SEED + seed) for seed in range(THREADS)]
    together = Barrier(THREADS)
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, own[0])
        program = jax.jit(call).lower(*own[0]).compile()
        arguments = [list(map(jax.device_put, inputs)) for inputs in own]

        def work(thread: int) -> list[Any]:
            together.wait()
            found: list[Any] = jax.block_until_ready([program(*arguments[thread]) for _ in range(CALLS)])
            return found

        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(work, range(THREADS)))
    for thread, inputs in enumerate(own):
        for number, result in enumerate(results[thread]):
            evidence.require(judge_results(operator, inputs, result), f"call {number} of thread {thread}")
