"""Judges one kernel on one set of inputs: builds it, compiles it, runs it, and compares the results with the truth."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import msgspec
import numpy as np

from reports import Status
from suites.backends.backend import Backend
from suites.checks.judging.bits import fingerprint, same_bits
from suites.checks.judging.blame import status_of
from suites.checks.judging.canaries import WrittenBeyond
from suites.checks.judging.custom_calls import missing_custom_call
from suites.checks.judging.guarded_runs import GuardedRuns, run_guarded, why_unguarded, zeroed_run
from suites.checks.judging.poisoned_runs import POISONS, compile_poisoned, disagreement, run_poisoned
from suites.checks.judging.reasons import described, with_inputs
from suites.checks.judging.remembered import Remembered, truth
from suites.checks.judging.repetition import judge_all
from suites.declare.input_names import input_names
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs, specs
from suites.numerics.precision import precision
from suites.numerics.verdict import Verdict, judge

MOST_GUARDED_BYTES = 1 << 29
"""Calls with more bytes of arrays run without guards, which need a second copy of every array."""

REPETITIONS = {"cpu": 0, "cuda": 4}
"""Further runs of a call, by platform: threads of a GPU that race rarely meet in one run. On a CPU the check ``repeat``
looks for races."""

MOST_REPEATED_BYTES = 1 << 22
"""Calls with more bytes of arrays are not run again: copying their results takes long, and enough threads meet."""

ONLY_WITH_ZEROS = "right only where the memory that the kernel allocates is zero"
"""Precedes the reason of a failure that another content of the heap makes."""


def judge_kernel(
    operator: Operator,
    backend: Backend,
    inputs: Inputs,
    device: jax.Device | None = None,
    by: Callable[[list[Array]], Verdict] | None = None,
) -> Verdict:
    """Judges one backend on these inputs; a failure is a status with a reason, not an exception.

    It requires, in this order: the kernel compiles, the compiled program contains the custom call, the kernel touches
    nothing but its arrays, it runs, its inputs are unchanged, every output was written (and equal inputs give equal
    bits), results are right, also where the memory that the kernel allocates is not zero.

    Args:
        operator: The operator.
        backend: The backend.
        inputs: The inputs.
        device: Where it runs; None for JAX's default device.
        by: Judges the results; by default they are compared with the operator's truth.
    """
    placed = jax.default_device(device) if device else contextlib.nullcontext()
    with precision(*(array.dtype for array in inputs)), placed:
        arguments = [jax.device_put(array) for array in inputs]
        (where,) = jax.device_put(0).devices()
        on_host = where.platform == "cpu"
        platform = "cpu" if on_host else "cuda"
        outs = operator.outputs(*inputs)
        try:
            program = poisoned_program(operator, backend, specs(inputs), where)
        except Exception as error:
            return Verdict(status_of(error, Status.COMPILE_ERROR), described(error), None)
        # XLA drops a call whose results are all empty.
        calls = operator.calls(backend) if any(np.prod(out.shape) for out in outs) else 0
        missing = missing_custom_call(program.as_text(), backend, platform, calls)
        if missing:
            return Verdict(Status.COMPILE_ERROR, missing, None)
        before = fingerprint(inputs) if on_host else ""
        try:
            guarded = _guarded(operator, backend, platform, program, arguments, inputs)
            if guarded and guarded.fault:
                return with_inputs(guarded.fault, operator, inputs)
            more = REPETITIONS[platform] if _bytes(inputs, outs) <= MOST_REPEATED_BYTES else 0
            poisons = [POISONS[number % len(POISONS)] for number in range(len(POISONS) + more)]
            runs = [run_poisoned(program, outs, arguments, poison) for poison in poisons]
        except WrittenBeyond as beyond:
            return with_inputs(Verdict(Status.OUT_OF_BOUNDS, str(beyond), None), operator, inputs)
        except Exception as error:
            return Verdict(status_of(error), described(error), None)
        after = [np.asarray(array) for array in arguments]
        # On a CPU the arguments may share the memory of the inputs, so only a digest shows a change.
        if not (fingerprint(after) == before if on_host else same_bits(after, inputs)):
            return Verdict(Status.INPUT_MUTATED, "an input has other bits after the call than before", None)
        deterministic = operator.deterministic(backend, platform)
        different = disagreement(*runs[: len(POISONS)], deterministic=deterministic)
        judged = by or functools.partial(judge_all, operator, inputs=inputs)
        verdict = different or judged(runs[0])
        for again in runs[len(POISONS) :]:
            verdict = _judge_again(again, runs[0], verdict, judged, deterministic)
        if guarded:
            verdict = _judge_guarded(judged, guarded, runs[0], verdict)
            if verdict.status in (Status.WRONG_VALUE, Status.NONDETERMINISTIC):
                results = zeroed_run(lambda: run_poisoned(program, outs, arguments, POISONS[0]))
                if not judged(results).status.failed:
                    verdict = replace(verdict, reason=f"{ONLY_WITH_ZEROS}; {verdict.reason}")
            elif not verdict.status.failed and calls and not guarded.calls:
                verdict = guarded.unseen
        return with_inputs(verdict, operator, inputs)


def judge_results(operator: Operator, inputs: Inputs, results: Any) -> Verdict:
    """Judges results that were computed in some other way, such as eagerly or under a transformation."""
    verdict = judge([np.asarray(leaf) for leaf in jax.tree.leaves(results)], truth(operator, inputs))
    return with_inputs(verdict, operator, inputs)


def with_reference(verdict: Verdict, operator: Operator, inputs: Inputs) -> Verdict:
    """Adds the error of XLA's own implementation on the same inputs to a verdict."""
    if verdict.accuracy is None:
        return verdict
    share = _reference_budget(operator, inputs)
    return replace(verdict, accuracy=msgspec.structs.replace(verdict.accuracy, reference_budget_used=share))


def _guarded(
    operator: Operator, backend: Backend, platform: str, program: Any, arguments: Any, inputs: Inputs
) -> GuardedRuns | None:
    """Runs the program under guards, if there are guards for this backend and the arrays are not too large to copy."""
    outs = operator.outputs(*inputs)
    if why_unguarded(backend, platform) or _bytes(inputs, outs) > MOST_GUARDED_BYTES:
        return None
    is_direct = getattr(operator.kernels.get(backend), "direct", False)
    names = input_names(operator.reference, len(inputs)) if is_direct else []
    return run_guarded(
        lambda number: run_poisoned(program, outs, arguments, POISONS[number]),
        {f"input {index}": f"input {index} ({name})" for index, name in enumerate(names) if not name.isdigit()},
    )


def _bytes(*arrays: Sequence[Any]) -> int:
    return sum(math.prod(array.shape) * np.dtype(array.dtype).itemsize for each in arrays for array in each)


def _judge_again(
    again: list[Any],
    results: list[Any],
    verdict: Verdict,
    judged: Callable[[list[Array]], Verdict],
    deterministic: bool,
) -> Verdict:
    """Judges the results of a further run if they have other bits than ``results``, and no run before was wrong."""
    if verdict.status.wrong or same_bits(again, results):
        return verdict
    if deterministic:
        return Verdict(Status.NONDETERMINISTIC, "one of several runs on the same inputs has other bits", None)
    found = judged(again)
    return found if found.status.wrong else verdict


def _judge_guarded(
    judged: Callable[[list[Array]], Verdict], guarded: GuardedRuns, results: list[Any], verdict: Verdict
) -> Verdict:
    """Judges the results of guarded runs that differ from ``results``, if these are right."""
    for others in guarded.results:
        if not verdict.status.wrong and not same_bits(others, results):
            found = judged(others)
            verdict = found if found.status.wrong else verdict
    return verdict


@functools.lru_cache(maxsize=256)
def poisoned_program(
    operator: Operator, backend: Backend, inputs: tuple[jax.ShapeDtypeStruct, ...], where: jax.Device
) -> Any:
    """Compiles a kernel for :func:`run_poisoned`, once in a process for inputs of these shapes and dtypes."""
    return compile_poisoned(operator.build(backend, inputs), operator.outputs(*inputs), inputs)


def _reference_share(operator: Operator, inputs: Inputs) -> float | None:
    verdict = judge_kernel(operator, Backend.JNP, inputs)
    return verdict.accuracy.budget_used if verdict.accuracy else None


_reference_budget = Remembered(_reference_share, most=64)
