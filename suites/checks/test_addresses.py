"""Checks calls on inputs that lie at the same addresses as before but hold other values.

A kernel that keeps an old result must find out that its inputs have changed. It may look at their addresses, their
length, their first elements, a sum or every tenth element. So the values change in one place only, or two values change
places.
"""

from collections.abc import Iterator

import jax
import numpy as np

from suites.cells.case import SEED, Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.bits import Array
from suites.checks.judging.cell_verdict import judge_results, poisoned_program
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.poisoned_runs import POISONS, run_poisoned
from suites.checks.judging.refilled_memory import RefilledMemory
from suites.checks.register import check
from suites.numerics.arrays import Inputs, specs
from suites.numerics.precision import precision

LEAST = 16
"""Inputs with fewer elements are parameters: another value may not fit the other inputs."""


@check(
    "addresses",
    sees="results that are kept because inputs have the old addresses, length, first elements or sum",
    cells=TRANSFORMED_KERNELS,
    order=55,
)
def test_other_contents_at_the_same_addresses_give_their_own_results(case: Case, evidence: Evidence) -> None:
    operator, size = case.operator, case.operator.sizes.check[-1]
    first, second = (operator.sample(case.dtype, size, SEED + seed) for seed in (0, 1))
    memory = RefilledMemory(first, case.device)
    with precision(case.dtype), jax.default_device(case.device):
        outs = operator.outputs(*first)
        program = poisoned_program(operator, case.backend, specs(first), case.device)
        for where, inputs in _contents(first, second):
            results = run_poisoned(program, outs, memory.fill(inputs), POISONS[0])
            evidence.require(judge_results(operator, inputs, results), where)


def _contents(first: Inputs, second: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Yields what the memory holds in turn. Between two calls only one input changes, except at the end."""
    yield "first values", first
    for index, (array, other) in enumerate(zip(first, second, strict=True)):
        if _is_structure(array, other):
            continue
        for what, changed in (("one value changed", _one_changed(array)), ("two values exchanged", _exchanged(array))):
            yield f"input {index} at the same address, {what}", (*first[:index], changed, *first[index + 1 :])
            yield "first values again", first
    yield "other values at the same addresses", second
    yield "first values again", first


def _one_changed(array: Array) -> Array:
    """The array with the value of one element in the place of another, away from both ends."""
    changed = array.copy()
    place, other = _places(array)
    changed.flat[place] = array.flat[other]
    return changed


def _exchanged(array: Array) -> Array:
    """The array with two elements exchanged, so that its sum, its extremes and its ends stay as they are."""
    changed = array.copy()
    place, other = _places(array)
    changed.flat[place], changed.flat[other] = array.flat[other], array.flat[place]
    return changed


def _places(array: Array) -> tuple[int, int]:
    """Two places of different values, the first just after the middle and odd, which no coarse sample meets."""
    place = array.size // 2 | 1
    others = np.flatnonzero(array.reshape(-1) != array.flat[place])
    inner = others[(others > array.size // 4) & (others < array.size - 1)]
    return place, int(inner[len(inner) // 3] if inner.size else others[0])


def _is_structure(array: Array, other: Array) -> bool:
    """Whether single values must not change: parameters, sorted arrays such as offsets, permutations, constants."""
    flat = array.reshape(-1)
    if array.size < LEAST or (flat == flat[0]).all():
        return True
    if array.dtype.kind in "iu" and (np.unique(flat).size == flat.size or np.array_equal(array, other)):
        return True
    return array.dtype.kind != "c" and bool((flat[1:] >= flat[:-1]).all() or (flat[1:] <= flat[:-1]).all())
