"""Judges one kernel on one set of inputs: builds it, compiles it, runs it, and compares the results with the truth."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.backends import BACKENDS, Backend
from suites.cells import repeated_inputs
from suites.checks.judging.memory import (
    POISONS,
    WrittenBeyond,
    compile_poisoned,
    disagreement,
    run_guarded,
    run_poisoned,
    why_unguarded,
)
from suites.checks.judging.reasons import verdict_on, with_inputs
from suites.declare.answers import default_hint
from suites.declare.input_arrays import input_names
from suites.declare.operator import Operator
from suites.kernels.kernel import AtLeast
from suites.numerics.arrays import Array, Inputs, fingerprint, same_bits, specs, total_bytes
from suites.numerics.error_model import Truth
from suites.numerics.precision import precision
from suites.numerics.verdict import ResultVerdict, judge, wrong_elements, wrong_outputs

MOST_GUARDED_BYTES = 1 << 29
"""Calls with more bytes of arrays run without guards, which need a second copy of every array."""

REPETITIONS = {"cpu": 0, "cuda": 4}
"""Further runs of a call, by platform: one run rarely shows a race between threads of a GPU. On a CPU the check
``repeat`` looks for races."""

MOST_REPEATED_BYTES = 1 << 22
"""Calls with more bytes run once: copying their results takes long, and one run has enough threads to show a race."""

SMALL_BYTES = 1 << 17
"""Calls with at most this many bytes are small: the truths of many small calls are cached."""

ANY_INPUTS = (Status.COMPILE_ERROR, Status.WRONG_SHAPE, Status.WRONG_DTYPE)
"""Failures that do not depend on the values of the inputs."""

Judge = Callable[[list[Array]], ResultVerdict]


def judge_kernel(
    operator: Operator, backend: Backend, inputs: Inputs, device: jax.Device | None = None, by: Judge | None = None
) -> ResultVerdict:
    """Judges one backend on these inputs; a failure of the kernel is a status with a reason, not an exception.

    It requires, in this order: the kernel compiles, the compiled program contains the custom call, the kernel accesses
    only its arrays, it runs, its inputs are unchanged, every output was written (and equal inputs give equal bits), and
    the results are right, even if the memory that the kernel allocates is not zero.

    Args:
        operator: The operator.
        backend: The backend.
        inputs: The inputs.
        device: The device; None for JAX's default device.
        by: Judges the results; by default they are compared with the operator's truth.
    """
    verdict = judge_bare(operator, backend, inputs, device, by)
    return verdict if verdict.status in ANY_INPUTS else with_inputs(verdict, operator, inputs)


def judge_bare(
    operator: Operator, backend: Backend, inputs: Inputs, device: jax.Device | None = None, by: Judge | None = None
) -> ResultVerdict:
    """Judges like :func:`judge_kernel`; the reason does not show the inputs."""
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
            hint = default_hint(operator.sample, input_names(operator.reference, len(inputs)))
            verdict = verdict_on(error, Status.COMPILE_ERROR)
            return replace(verdict, reason=f"{verdict.reason} ({hint})") if hint else verdict
        mismatch = wrong_outputs(jax.tree.leaves(program.out_info), outs)
        if mismatch:  # do not run it: a kernel would write past the end of an output that is too small
            return mismatch
        # XLA drops a call whose results are all empty.
        calls = operator.calls(backend) if any(np.prod(out.shape) for out in outs) else 0
        missing = missing_custom_call(program.as_text(), backend, platform, calls)
        if missing:
            return ResultVerdict(Status.COMPILE_ERROR, missing, None)
        before, size_bytes = fingerprint(inputs) if on_host else "", total_bytes(*inputs, *outs)
        try:
            guarded = None
            if not why_unguarded(backend, platform) and size_bytes <= MOST_GUARDED_BYTES:
                guarded = run_guarded(lambda number: run_poisoned(program, outs, arguments, POISONS[number]))
                if guarded.fault:
                    return guarded.fault
            more = REPETITIONS[platform] if size_bytes <= MOST_REPEATED_BYTES else 0
            poisons = [POISONS[number % len(POISONS)] for number in range(len(POISONS) + more)]
            runs = [run_poisoned(program, outs, arguments, poison) for poison in poisons]
        except WrittenBeyond as beyond:
            return ResultVerdict(Status.OUT_OF_BOUNDS, str(beyond), None)
        except Exception as error:
            return verdict_on(error)
        after = [np.asarray(array) for array in arguments]
        # On a CPU the arguments may share the memory of the inputs, so only a digest shows a change.
        if not (fingerprint(after) == before if on_host else same_bits(after, inputs)):
            return ResultVerdict(Status.INPUT_MUTATED, "an input has other bits after the call than before", None)
        deterministic = operator.deterministic(backend, platform)
        judged = by or functools.partial(judge_all, operator, inputs=inputs)
        verdict = disagreement(*runs[: len(POISONS)], deterministic=deterministic) or judged(runs[0])
        for again in runs[len(POISONS) :]:
            if deterministic and not verdict.status.wrong and not same_bits(again, runs[0]):
                reason = "one of several runs on the same inputs has other bits"
                verdict = ResultVerdict(Status.NONDETERMINISTIC, reason, None)
            verdict = _also(again, runs[0], verdict, judged)
        if guarded:
            for again in guarded.results:
                verdict = _also(again, runs[0], verdict, judged)
            if not verdict.status.failed and calls and not guarded.calls:
                verdict = guarded.unseen
        return verdict


def _also(again: list[Any], results: list[Any], verdict: ResultVerdict, judged: Judge) -> ResultVerdict:
    """Judges the results of a further run, if all earlier runs were right and its bits differ from ``results``."""
    if verdict.status.wrong or same_bits(again, results):
        return verdict
    other = judged(again)
    return other if other.status.wrong else verdict


def judge_results(operator: Operator, inputs: Inputs, results: Any) -> ResultVerdict:
    """Judges results that were computed in some other way, such as eagerly or under a transformation."""
    verdict = judge([np.asarray(leaf) for leaf in jax.tree.leaves(results)], truth(operator, inputs))
    return with_inputs(verdict, operator, inputs)


def judge_all(operator: Operator, results: list[Array], inputs: Inputs) -> ResultVerdict:
    """Judges results by the operator's truth.

    Large inputs may repeat (:mod:`suites.cells.repeated_inputs`). Then the first period is compared with the truth, and
    of the others only the elements that differ from the first.
    """
    size = max(array.size for array in inputs)
    if not repeated_inputs.repeats(operator, size):
        return judge(results, truth(operator, inputs))
    period = repeated_inputs.PERIOD
    true = truth(operator, tuple(array.reshape(-1)[:period] if array.size == size else array for array in inputs))
    verdict = judge([result.reshape(-1)[:period] for result in results], true)
    if verdict.status not in (Status.PASSED, Status.UNCHECKED):
        return verdict
    for index, (result, expected) in enumerate(zip(results, true.outputs, strict=True)):
        flat = result.reshape(-1)
        differing = period + np.flatnonzero(flat[period:] != flat[:-period])
        (wrong,) = wrong_elements([flat[differing]], Truth((expected.at(differing % period),)))
        if wrong.any():
            element = int(differing[wrong.argmax()])
            reason = (
                f"output {index}[{element}] is {flat[element]!s}, but {flat[element - period]!s} for the same inputs "
                f"{period} elements before ({int(wrong.sum())} such elements)"
            )
            return ResultVerdict(Status.WRONG_VALUE, reason, None)
    return verdict


@functools.lru_cache(maxsize=256)
def poisoned_program(
    operator: Operator, backend: Backend, inputs: tuple[jax.ShapeDtypeStruct, ...], where: jax.Device
) -> Any:
    """Compiles a kernel for ``run_poisoned``, once in a process for inputs of these shapes and dtypes."""
    return compile_poisoned(operator.build(backend, inputs), operator.outputs(*inputs), inputs)


def missing_custom_call(program: str, backend: Backend, platform: str, expected: int | AtLeast = 1) -> str | None:
    """Returns why a compiled program is no evidence for a backend; None if it is.

    The program of a kernel backend must call the backend's target exactly ``expected`` times, and no other target of
    ours. The program of the reference must call none.

    Args:
        program: Text of the compiled program.
        backend: The backend under test.
        platform: ``cpu`` or ``cuda``.
        expected: Custom calls that the program must contain. If only the least number is known, calls of all targets
            of ours count: an operator may run several languages on one platform.
    """
    calls = {other.custom_call(where) for other in BACKENDS.values() for where in other.platforms}
    if isinstance(expected, AtLeast):
        total = sum(program.count(f'custom_call_target="{target}"') for target in calls if target)
        if total < expected.calls:
            return f"the compiled program contains {total} calls of kernels, expected {expected}"
        return None
    own = backend.custom_call(platform)
    for target in sorted(call for call in calls if call):
        count, wanted = program.count(f'custom_call_target="{target}"'), expected if target == own else 0
        if count != wanted:
            return f"the compiled program contains {count} calls of {target}, expected {wanted}"
    return None


@dataclass(frozen=True)
class _Call:
    """A call of an operator. It equals another one whose inputs have the same bits."""

    operator: Operator
    digest: str
    x64: bool
    inputs: Inputs = field(compare=False)


def _call(operator: Operator, inputs: Inputs) -> _Call:
    return _Call(operator, fingerprint(inputs), jax.dtypes.canonicalize_dtype("float64") == np.float64, inputs)


def truth(operator: Operator, inputs: Inputs) -> Truth:
    """Returns the truth for inputs, computed once for all backends and checks: for large inputs it takes seconds."""
    is_small = total_bytes(*inputs, *operator.outputs(*inputs)) <= SMALL_BYTES
    cache = _small_truth if is_small else _large_truth
    return cache(_call(operator, inputs))


def _truth(call: _Call) -> Truth:
    return call.operator.truth(*call.inputs)


_small_truth = functools.lru_cache(maxsize=256)(_truth)
_large_truth = functools.lru_cache(maxsize=4)(_truth)
