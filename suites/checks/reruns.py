"""Runs a failed kernel a few times more, to find the cause: a race, state between calls, or uninitialized memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np

from reports import Status
from suites.backends.numba_cpu import NumbaKernel
from suites.cells.case import Case
from suites.checks.drawn.drawn_inputs import whole_numbers
from suites.checks.judging.call_loops import (
    REPEAT_S,
    calls_in,
    is_parallel,
    keeps_bits,
    long_size,
    prepare,
    until_concurrent,
)
from suites.checks.judging.cell_verdict import judge_all, poisoned_program
from suites.checks.judging.memory import POISONS, run_poisoned, unwritten
from suites.guards.filled_heap import FILLS, filled_heap
from suites.kernels.numba_cpu.copies import with_options
from suites.numerics.arrays import Array, Inputs, same_bits, specs
from suites.numerics.verdict import ResultVerdict

TRIES = 10
"""How often loops of calls look for a race in a failed kernel: on a busy machine threads rarely overlap."""

SETS = 2
"""Sets of inputs of a loop of calls."""

VARYING = (Status.WRONG_VALUE, Status.NONDETERMINISTIC, Status.UNWRITTEN_OUTPUT)
"""The statuses that a race, state or uninitialized memory may cause."""


def with_cause(case: Case, verdict: ResultVerdict) -> ResultVerdict:
    """Adds a cause to the verdict of a check, if the results of the kernel vary."""
    try:
        sample = replace(case, variant=None, size=case.operator.sizes.check[-1])
        cause = _cause(sample) if verdict.status in VARYING else None
    except Exception:  # the verdict stands without further words
        cause = None
    return replace(verdict, status=Status.NONDETERMINISTIC, cause=cause) if cause else verdict


@dataclass(frozen=True)
class _Runs:
    """Runs the kernel of a case."""

    case: Case

    def __call__(self, inputs: Inputs, byte: int = POISONS[1], heap: int = FILLS[0]) -> list[Array]:
        operator = self.case.operator
        program = poisoned_program(operator, self.case.backend, specs(inputs), self.case.device)
        arguments = jax.block_until_ready([jax.device_put(array) for array in inputs])
        with filled_heap(heap):
            return run_poisoned(program, operator.outputs(*inputs), arguments, byte)

    def is_right(self, results: list[Array], inputs: Inputs) -> bool:
        return judge_all(self.case.operator, results, inputs).status is Status.PASSED


@functools.lru_cache(maxsize=8)
def _cause(case: Case) -> str | None:
    with case.placed():
        runs = _Runs(case)
        return next((cause for look in _CAUSES for cause in look(runs)), None)


def _race(runs: _Runs) -> Iterator[str]:
    case, kernel = runs.case, runs.case.operator.kernel(runs.case.backend)
    if not is_parallel(case) or not isinstance(kernel, NumbaKernel):
        return
    serial = replace(kernel, dispatcher=with_options(kernel.dispatcher, parallel=False))
    alone = replace(case, operator=replace(case.operator, kernels={case.backend: serial}))
    for size in race_sizes(case):
        sets = race_inputs(case, size)
        expected = prepare(alone, sets, case.device).expected
        if not all(runs.is_right([np.asarray(leaf[turn]) for leaf in expected], sets[turn]) for turn in range(SETS)):
            return
        loop = replace(prepare(case, sets, case.device), expected=expected)
        count = calls_in(loop, REPEAT_S / 4, most=1 << 10)
        if any(until_concurrent(loop, count).differing for _ in range(TRIES)):
            yield "a race between threads: right with parallel=False, wrong in parallel"


def race_sizes(case: Case) -> tuple[int, int]:
    """Returns sizes that show races: a small one, where threads write few elements, and a long one."""
    return case.size, long_size(case)


def race_inputs(case: Case, size: int) -> list[Inputs]:
    """Returns inputs whose sums are exact, so that the result shows any term that a kernel loses."""
    return [whole_numbers(case.operator, inputs, seed) for seed, inputs in enumerate(case.samples(SETS, size))]


def _state(runs: _Runs) -> Iterator[str]:
    first, other = runs.case.samples(2)
    if not keeps_bits(runs.case) or specs(first) != specs(other):
        return
    _, once, again = runs(first), runs(first), runs(first)
    if not same_bits(once, again):
        yield "keeps state between calls: the same call gives another result each time"
    (longer,) = runs.case.samples(1, runs.case.size + 1)
    runs(longer)
    runs(other)
    now = runs(first)
    if runs.is_right(now, other) and not runs.is_right(now, first):
        yield "keeps state between calls: a call returns the result of the call before it, on other inputs"
    if not same_bits(now, again):
        yield "keeps state between calls: after a call on other inputs the result changes"


def _unset_output(runs: _Runs) -> Iterator[str]:
    (inputs,) = runs.case.samples(1)
    filled, zeroed = runs(inputs, POISONS[1]), runs(inputs, 0)
    if not keeps_bits(runs.case) or same_bits(filled, zeroed):
        return
    for index, (one, other) in enumerate(zip(filled, zeroed, strict=True)):
        if ((one != other) & ~unwritten(((one, POISONS[1]), (other, 0)))).any():
            right = ", and is right only if the output holds zeros" if runs.is_right(zeroed, inputs) else ""
            yield f"reads output {index} before it sets it{right}"


def _unset_memory(runs: _Runs) -> Iterator[str]:
    (inputs,) = runs.case.samples(1)
    if keeps_bits(runs.case) and not same_bits(runs(inputs, heap=FILLS[0]), runs(inputs, heap=FILLS[1])):
        yield "reads memory that it allocates before it sets it"


_CAUSES: tuple[Callable[[_Runs], Iterator[str]], ...] = (_race, _state, _unset_output, _unset_memory)
"""The causes to look for, in this order: each one assumes that the earlier ones were not found."""
