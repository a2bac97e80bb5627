"""Checks a kernel at many sizes: powers of two, multiples of blocks, their neighbours, random and large ones."""

import functools
import time

import jax
import numpy as np

from suites.cells import repeated_inputs
from suites.cells.case import SEED, Case, sample
from suites.cells.tables import KERNELS, LARGE_SAMPLES
from suites.checks.drawn.drawn_inputs import whole_numbers
from suites.checks.drawn.many_sizes import large_sizes, memory_alone, small_sizes, vast_size
from suites.checks.drawn.session_choices import depth, session_seed
from suites.checks.judging.cell_verdict import judge_kernel, poisoned_program
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.memory import POISONS, run_poisoned
from suites.checks.register import check
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs, specs

MOST_CALL_S = 30.0
"""How long a call may take; sizes at which it would take longer are not tried."""


@check(
    "sizes",
    sees="errors at some sizes alone: powers of two, multiples of 8 or of a block, one more or less, random ones",
    cells=KERNELS,
)
def test_every_size_is_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    for size in small_sizes(operator, case.dtype, depth()):
        verdict = judge_kernel(operator, case.backend, operator.sample(case.dtype, size, SEED), case.device)
        evidence.require(verdict, f"size {size} (seed {session_seed()})")


@check(
    "large",
    sees="parallel parts, second passes and capped grids, which small inputs never reach; indices of 16 to 21 bits",
    cells=LARGE_SAMPLES,
)
def test_large_inputs_are_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    evidence.require(judge_kernel(operator, case.backend, case.inputs(), case.device), whole=True)
    if not case.in_first_dtype or case.size != operator.sizes.large:
        return
    seconds = _seconds(case, case.size)
    for size in large_sizes(operator, case.dtype, depth()):
        if seconds * size / case.size > MOST_CALL_S:
            break
        verdict = judge_kernel(operator, case.backend, _whole(operator, case.dtype, size), case.device)
        evidence.require(verdict, f"size {size} (seed {session_seed()})")
    if depth() and case.platform == "cuda":
        with memory_alone() as is_free:
            vast = vast_size(operator, case.dtype, case.device)
            if vast is not None and not is_free:
                evidence.note = evidence.note or f"size {vast} was not tried: another process had the memory"
            elif vast is not None:
                inputs = repeated_inputs.sample(operator, case.dtype, vast, SEED)
                evidence.require(judge_kernel(operator, case.backend, inputs, case.device), f"size {vast}")


def _seconds(case: Case, size: int) -> float:
    """How long the faster of two calls takes."""
    inputs = sample(case.operator, case.dtype, size, SEED)
    with case.placed():
        program = poisoned_program(case.operator, case.backend, specs(inputs), case.device)
        arguments, outs = jax.device_put(list(inputs)), case.operator.outputs(*inputs)
        moments = [time.perf_counter()]
        for byte in POISONS:
            run_poisoned(program, outs, arguments, byte)
            moments.append(time.perf_counter())
    return float(np.diff(moments).min())


@functools.lru_cache(maxsize=6)  # the sizes of a full session, which each backend takes in turn
def _whole(operator: Operator, dtype: str, size: int) -> Inputs:
    inputs = sample(operator, dtype, size, SEED)
    return inputs if repeated_inputs.repeats(operator, size) else whole_numbers(operator, inputs)
