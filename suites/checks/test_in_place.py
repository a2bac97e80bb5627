"""Checks a kernel that updates inputs in place: callers see values, whoever owns the memory.

XLA may give the kernel the memory of an input only if nobody needs it any more. In each program of this check another
one decides that: the caller, the program itself, a loop, or a batch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.tables.declared_cells import IN_PLACE
from suites.checks.judging.bits import fingerprint
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision

STEPS = 4
"""Steps of the loop: in each one the result is the next input."""


@check(
    "in place",
    sees="an update in place that callers see, or that goes wrong where memory is really shared",
    cells=IN_PLACE,
    order=145,
)
def test_updates_in_place_are_values_to_everybody(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    aliases = operator.kernel(case.backend).aliases(inputs, operator.outputs(*inputs))
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)
        _kept(case, evidence, call, aliases)
        _donated(case, evidence, call, aliases)
        _carried(case, evidence, call, aliases)
        _batched(case, evidence, call, aliases)


def _kept(case: Case, evidence: Evidence, call: Any, aliases: Mapping[int, int]) -> None:
    """The program uses the old value after the call."""
    operator, inputs = case.operator, case.inputs()

    def used_again(*arrays: jax.Array) -> Any:
        return call(*arrays), [arrays[index].reshape(-1) for index in aliases], call(*arrays)

    first, old, second = jax.jit(used_again)(*map(jax.device_put, inputs))
    for results, where in ((first, "first call"), (second, "second call on the same inputs")):
        evidence.require(judge_results(operator, inputs, results), where)
    for index, after in zip(aliases, old, strict=True):
        if fingerprint([np.asarray(after)]) != fingerprint([inputs[index].reshape(-1)]):
            evidence.fail(Status.INPUT_MUTATED, f"input {index} has other values after the call inside a program")


def _donated(case: Case, evidence: Evidence, call: Any, aliases: Mapping[int, int]) -> None:
    """The caller gives the memory away."""
    inputs = case.inputs()
    arguments = [jax.numpy.array(array, copy=True) for array in inputs]
    results = jax.jit(call, donate_argnums=tuple(aliases))(*arguments)
    evidence.require(judge_results(case.operator, inputs, results), "donated")
    others = [index for index in range(len(inputs)) if index not in aliases]
    if fingerprint([np.asarray(arguments[i]) for i in others]) != fingerprint([inputs[i] for i in others]):
        evidence.fail(Status.INPUT_MUTATED, "an input that is not updated in place has other bits after the call")


def _carried(case: Case, evidence: Evidence, call: Any, aliases: Mapping[int, int]) -> None:
    """A loop passes each result on as the next input."""
    inputs = case.inputs()

    def step(state: Sequence[jax.Array], _: Any) -> Any:
        arrays = list(map(jax.numpy.asarray, inputs))
        for index, array in zip(aliases, state, strict=True):
            arrays[index] = array
        results = call(*arrays)
        return [results[place] for place in aliases.values()], (state, results)

    begin = [jax.device_put(inputs[index]) for index in aliases]
    _, (states, results) = jax.jit(lambda state: jax.lax.scan(step, state, None, STEPS))(begin)
    for number in range(STEPS):
        arrays = list(inputs)
        for index, state in zip(aliases, states, strict=True):
            arrays[index] = np.asarray(state[number])
        verdict = judge_results(case.operator, tuple(arrays), [leaf[number] for leaf in results])
        evidence.require(verdict, f"step {number} of a loop")


def _batched(case: Case, evidence: Evidence, call: Any, aliases: Mapping[int, int]) -> None:
    """A donated batch: the updated inputs are batched, the others are shared."""
    operator, shared = case.operator, case.inputs()
    elements: list[Inputs] = []
    for seed in range(3):
        own = operator.sample(case.dtype, case.size, SEED + seed)
        elements.append(tuple(own[i] if i in aliases else shared[i] for i in range(len(shared))))
    axes = tuple(0 if index in aliases else None for index in range(len(shared)))
    stacked = [
        np.stack([each[index] for each in elements]) if index in aliases else shared[index]
        for index in range(len(shared))
    ]
    batched = jax.jit(jax.vmap(call, in_axes=axes), donate_argnums=tuple(aliases))
    results = batched(*[jax.numpy.array(array, copy=True) for array in stacked])
    for number, inputs in enumerate(elements):
        evidence.require(judge_results(operator, inputs, [leaf[number] for leaf in results]), f"element {number}")
