"""Checks a kernel at many sizes: powers of two, multiples of blocks, their neighbours, random and large ones."""

import functools
import time

import jax
import numpy as np

from suites.cells import repeated_inputs
from suites.cells.case import SEED, Case, sample
from suites.cells.tables import KERNELS, LARGE_SAMPLES
from suites.checks.drawn.drawn_inputs import needles, whole_numbers
from suites.checks.drawn.drawn_truth import DrawnTruth, NoTruthError, drawn_truth
from suites.checks.drawn.many_sizes import large_sizes, small_sizes
from suites.checks.drawn.session_choices import depth, session_seed
from suites.checks.judging.call_loops import work
from suites.checks.judging.cell_verdict import judge_kernel, poisoned_program
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.memory import POISONS, run_poisoned
from suites.checks.register import check
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs, specs

MOST_CALL_S = 30.0
"""Most seconds of a call; sizes at which it would take longer are not tried."""

NEEDLES_SIZE, MOST_NEEDLES_WORK = 2**16 + 2, 2**21
"""The nominal size of needles, see :func:`needles`, and the most work of an operator that gets them."""


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
    sees="errors that small inputs never reach: in parallel parts, second passes and capped grids, with indices of 16 "
    "to 21 bits; an element that is lost where an input is cut",
    cells=LARGE_SAMPLES,
)
def test_large_inputs_are_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    evidence.require(judge_kernel(operator, case.backend, case.inputs(), case.device), every_element=True)
    if not case.in_first_dtype or case.size != operator.sizes.large:
        return
    seconds = _seconds(case, case.size)
    for size in large_sizes(operator, case.dtype, depth()):
        if seconds * size / case.size > MOST_CALL_S:
            break
        verdict = judge_kernel(operator, case.backend, _exact_inputs(operator, case.dtype, size), case.device)
        evidence.require(verdict, f"size {size} (seed {session_seed()})")
    for drawn in _needles(operator, case.dtype):
        verdict = judge_kernel(operator, case.backend, drawn.inputs, case.device, by=drawn.judge)
        evidence.require(verdict, drawn.name)


def _seconds(case: Case, size: int) -> float:
    """Returns the seconds of the faster of two calls."""
    inputs = sample(case.operator, case.dtype, size, SEED)
    with case.placed():
        program = poisoned_program(case.operator, case.backend, specs(inputs), case.device)
        arguments, outs = jax.device_put(list(inputs)), case.operator.outputs(*inputs)
        moments = [time.perf_counter()]
        for byte in POISONS:
            run_poisoned(program, outs, arguments, byte)
            moments.append(time.perf_counter())
    return float(np.diff(moments).min())


@functools.lru_cache(maxsize=1)
def _needles(operator: Operator, dtype: str) -> tuple[DrawnTruth, ...]:
    if operator.elementwise or work(operator, dtype, NEEDLES_SIZE) > MOST_NEEDLES_WORK:
        return ()
    try:
        return tuple(
            drawn_truth(operator, *drawn) for drawn in needles(operator, operator.sample(dtype, NEEDLES_SIZE, SEED))
        )
    except NoTruthError:  # the check `drawn` reports it
        return ()


@functools.lru_cache(maxsize=6)  # the sizes of a full session, which all backends use
def _exact_inputs(operator: Operator, dtype: str, size: int) -> Inputs:
    inputs = sample(operator, dtype, size, SEED)
    return inputs if repeated_inputs.repeats(operator, size) else whole_numbers(operator, inputs)
