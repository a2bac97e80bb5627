"""Called from several threads at once on inputs of their own, every kernel gives each thread its true result."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import jax

from suites.cells.params import SEED
from suites.judging.cell_verdict import check_results, precision

THREADS = 4
CALLS = 8


def test_concurrent_calls_are_right(threads_case, evidence):
    operator = threads_case.operator
    own = [operator.sample(threads_case.dtype, threads_case.size, SEED + seed) for seed in range(THREADS)]
    together = Barrier(THREADS)
    with precision(threads_case.dtype), jax.default_device(threads_case.device):
        call = operator.build(threads_case.backend, own[0])
        program = jax.jit(call).lower(*own[0]).compile()
        arguments = [list(map(jax.device_put, inputs)) for inputs in own]

        def work(thread):
            together.wait()
            return jax.block_until_ready([program(*arguments[thread]) for _ in range(CALLS)])

        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(work, range(THREADS)))
    for thread, inputs in enumerate(own):
        for number, result in enumerate(results[thread]):
            evidence.require(check_results(operator, inputs, result), f"call {number} of thread {thread}")
