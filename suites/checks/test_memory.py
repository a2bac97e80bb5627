"""Checks that a kernel stays inside its arrays, reads their current contents, and changes no other memory."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numba
import numpy as np
import pytest

from reports import Status
from suites.cells.case import SEED, Case, edges_of, sample, stacked
from suites.cells.tables import CHECKABLE_KERNELS, IN_PLACE, TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results, poisoned_program
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.gradients import pullback, random_cotangents
from suites.checks.judging.memory import POISONS, GuardedRuns, RefilledMemory, run_guarded, run_poisoned, why_unguarded
from suites.checks.register import check
from suites.numerics.arrays import Array, Inputs, fingerprint, specs

STEPS = 4
"""Steps of a loop in which each result is the next input."""

LEAST = 16
"""Inputs with fewer elements are parameters: another value may contradict the other inputs."""


@check(
    "guards",
    sees="accesses outside of arrays: here in batches and derivatives, and in every check of a compiled call",
    cells=TRANSFORMED_KERNELS,
)
def test_batch_and_derivative_stay_inside_their_arrays(case: Case, evidence: Evidence) -> None:
    missing = why_unguarded(case.backend, case.platform)
    if missing:
        pytest.skip(missing)
    inputs = case.inputs()
    with case.placed():
        call = case.build(inputs)
        programs: dict[str, tuple[Any, Any]] = {"batch": (jax.vmap(call), stacked(case.samples()))}
        if case.has_gradient:
            both = [inputs, random_cotangents(case.operator, inputs, SEED)]
            programs["derivative"] = pullback(call, case.operator), both
        for where, (function, operands) in programs.items():
            guarded = _guarded(function, operands)
            if guarded.fault is not None or not guarded.calls:
                evidence.require(guarded.fault or guarded.unseen, where)
            evidence.seen()


def _guarded(function: Any, operands: Any) -> GuardedRuns:
    program, arguments = jax.jit(function).lower(*operands).compile(), jax.device_put(operands)
    return run_guarded(lambda _: jax.block_until_ready(program(*arguments)))


@check(
    "indices",
    sees="indices out of bounds, also within an array and in memory that the kernel allocates (Numba)",
    cells=CHECKABLE_KERNELS,
)
def test_every_index_is_inside_its_array(case: Case, evidence: Evidence) -> None:
    """Runs a copy that Numba compiles with checks; a negative index counts from the end, as Numba defines it."""
    if numba.config.BOUNDSCHECK == 0:
        pytest.skip("NUMBA_BOUNDSCHECK=0 turns off Numba's checks of indices")
    operator = case.operator
    kernel = operator.kernels[case.backend].with_bounds_checks()
    assert kernel is not None  # the table holds no other kernels
    samples = {f"size {size}": sample(operator, case.dtype, size, SEED) for size in operator.sizes.check}
    with case.placed():
        for name, inputs in (samples | dict(edges_of(operator, case.dtype))).items():
            call = kernel.build(inputs, operator.outputs(*inputs))
            try:
                program = jax.jit(call).lower(*inputs).compile()
            except Exception as error:
                pytest.skip(f"Numba does not compile the kernel with checks of indices: {error}")
            try:
                jax.block_until_ready(program(*map(jax.device_put, inputs)))
            except jax.errors.JaxRuntimeError as error:
                _, separator, message = str(error).partition("IndexError: ")
                if not separator:
                    raise
                evidence.fail(Status.OUT_OF_BOUNDS, f"{name}: {message.strip()}")
            evidence.seen()


@check(
    "addresses",
    sees="results that are kept because inputs have the old addresses, length, first elements or sum",
    cells=TRANSFORMED_KERNELS,
)
def test_other_contents_at_the_same_addresses_give_their_own_results(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    first, second = case.samples(2, operator.sizes.check[-1])
    memory = RefilledMemory(first, case.device)
    with case.placed():
        outs = operator.outputs(*first)
        program = poisoned_program(operator, case.backend, specs(first), case.device)
        for where, inputs in _contents(first, second):
            results = run_poisoned(program, outs, memory.fill(inputs), POISONS[0])
            evidence.require(judge_results(operator, inputs, results), where)


def _contents(first: Inputs, second: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Yields the contents of the memory for each call. Between two calls only one input changes, except at the end.

    A kernel that caches a result may compare addresses, first elements, a sum or every tenth element. So one value
    changes, or two values are exchanged.
    """
    yield "first values", first
    for index, (array, other) in enumerate(zip(first, second, strict=True)):
        if _is_structure(array, other):
            continue
        middle = array.size // 2 | 1  # odd, and away from both ends, so that a coarse sample does not include it
        others = np.flatnonzero(array.reshape(-1) != array.flat[middle])
        inner = others[(others > array.size // 4) & (others < array.size - 1)]
        another = int(inner[len(inner) // 3] if inner.size else others[0])
        changed, exchanged = array.copy(), array.copy()
        changed.flat[middle] = array.flat[another]
        exchanged.flat[[middle, another]] = array.flat[[another, middle]]
        for what, now in (("one value changed", changed), ("two values exchanged", exchanged)):
            yield f"input {index} at the same address, {what}", (*first[:index], now, *first[index + 1 :])
            yield "first values again", first
    yield "other values at the same addresses", second
    yield "first values again", first


def _is_structure(array: Array, other: Array) -> bool:
    """Tells whether single values must not change: parameters, sorted arrays, permutations, constants."""
    flat = array.reshape(-1)
    if array.size < LEAST or (flat == flat[0]).all():
        return True
    if array.dtype.kind in "iu" and (np.unique(flat).size == flat.size or np.array_equal(array, other)):
        return True
    return array.dtype.kind != "c" and bool((flat[1:] >= flat[:-1]).all() or (flat[1:] <= flat[:-1]).all())


def _donate(case: Case, evidence: Evidence, call: Any, donated: tuple[int, ...]) -> None:
    inputs = case.inputs()
    # Copies that XLA owns: it cannot reuse memory that it borrows from NumPy.
    arguments = [jax.numpy.array(array, copy=True) for array in inputs]
    with warnings.catch_warnings():
        # XLA cannot reuse the memory for an output of another shape. That is no fault of the kernel.
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        results = jax.jit(call, donate_argnums=donated)(*arguments)
    evidence.require(judge_results(case.operator, inputs, results), "donated")
    others = [index for index in range(len(inputs)) if index not in donated]
    evidence.require_unchanged(fingerprint([inputs[i] for i in others]), [np.asarray(arguments[i]) for i in others])


@check(
    "in place",
    sees="an update in place that changes a caller's array, or is wrong if input and output share memory",
    cells=IN_PLACE,
)
def test_updates_in_place_are_values_to_everybody(case: Case, evidence: Evidence) -> None:
    """XLA may reuse the memory of an input that is not used again: the caller, the program or a loop decides this."""
    operator, inputs = case.operator, case.inputs()
    aliases = operator.kernel(case.backend).aliases(inputs, operator.outputs(*inputs))
    with case.placed():
        call = case.build(inputs)
        _require_old_values(case, evidence, call, aliases)
        _donate(case, evidence, call, tuple(aliases))
        _require_right_in_loops(case, evidence, call, aliases)


def _require_old_values(case: Case, evidence: Evidence, call: Any, aliases: Mapping[int, int]) -> None:
    """The program uses the old value after the call."""
    inputs = case.inputs()

    def used_again(*arrays: jax.Array) -> Any:
        return call(*arrays), [arrays[index].reshape(-1) for index in aliases], call(*arrays)

    first, old, second = jax.jit(used_again)(*map(jax.device_put, inputs))
    for results, where in ((first, "first call"), (second, "second call on the same inputs")):
        evidence.require(judge_results(case.operator, inputs, results), where)
    evidence.require_unchanged(fingerprint([inputs[i].reshape(-1) for i in aliases]), list(map(np.asarray, old)))


def _require_right_in_loops(case: Case, evidence: Evidence, call: Any, aliases: Mapping[int, int]) -> None:
    """Runs two loops in which each result is the next input: one keeps the inputs, the other does not."""
    inputs = case.inputs()

    def called(state: Sequence[jax.Array]) -> Any:
        arrays = list(map(jax.numpy.asarray, inputs))
        for index, array in zip(aliases, state, strict=True):
            arrays[index] = array
        return call(*arrays)

    def step(state: Sequence[jax.Array], _: Any) -> Any:
        results = called(state)
        return [results[output] for output in aliases.values()], (state, results)

    def last(state: Sequence[jax.Array]) -> Any:
        return called(jax.lax.fori_loop(0, STEPS - 1, lambda _, each: step(each, _)[0], list(state)))

    begin = [jax.device_put(inputs[index]) for index in aliases]
    _, (states, results) = jax.jit(lambda state: jax.lax.scan(step, state, None, STEPS))(begin)
    for number in range(STEPS):
        arrays = list(inputs)
        for index, state in zip(aliases, states, strict=True):
            arrays[index] = np.asarray(state[number])
        verdict = judge_results(case.operator, tuple(arrays), [leaf[number] for leaf in results])
        evidence.require(verdict, f"step {number} of a loop that keeps the input")
    verdict = judge_results(case.operator, tuple(arrays), jax.jit(last)(begin))
    evidence.require(verdict, f"after {STEPS} steps of a loop that does not keep the input")
