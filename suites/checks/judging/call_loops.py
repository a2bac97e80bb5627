"""Repeats calls in a loop inside one program, and compares every result there with the expected one.

Calls from Python are short, and between them a thread needs the interpreter's lock, so calls of two threads hardly ever
overlap. A loop inside a program leaves Python once for many calls. Each iteration takes the next of several sets of
inputs, so that XLA can neither move the call out of the loop nor remove one.

Results must have the same bits as the same call alone. This does not hold for kernels that may add floats in any order:
parallel loops on a CPU, atomic additions on a GPU. There two right results differ by at most twice the margin of the
truth, so a larger difference shows that one of them is wrong.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suites.backends import Backend
from suites.cells.case import Case
from suites.checks.judging.evidence import CheckFailed
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs, kind_of, specs, total_bytes
from suites.numerics.derived.reference import elements
from suites.numerics.error_model import Truth
from suites.numerics.jaxpr import jaxpr_of
from suites.numerics.verdict import wrong_outputs

_MOST_BYTES = 32 << 20
"""Most memory for the inputs of a call."""

_MOST_LONG = 1 << 22
"""Most elements that the reference computes for a call that shows races between the threads of a kernel."""

_GROWTH = 4

_MEASURED = (256, 1024)
"""Two sizes whose work shows how the work grows."""


@dataclass(frozen=True)
class LoopRun:
    """The outcome of a run of a loop.

    Attributes:
        differing: The number of calls whose results were not the expected ones.
        first: The iteration of the first such call; 0 if there is none.
        results: The results of that call.
        last: The results of the last call.
    """

    differing: int
    first: int
    results: list[jax.Array]
    last: list[jax.Array]


@dataclass(frozen=True)
class CallLoop:
    """A loop of calls over sets of inputs.

    Attributes:
        program: The compiled program of :func:`compile_loop`.
        sets: The sets of inputs, stacked, on the device.
        expected: The results of each set, stacked, on the device.
        slack: The largest allowed difference of each element, stacked, on the device; empty where every bit counts.
    """

    program: Any
    sets: list[jax.Array]
    expected: list[jax.Array]
    slack: list[jax.Array]

    def run(self, count: int, first: int = 0) -> LoopRun:
        """Makes ``count`` calls, beginning with the set of iteration ``first``, and waits for the end."""
        differing, iteration, results, last = self.program(
            np.int32(first), np.int32(first + count), self.sets, self.expected, self.slack
        )
        return LoopRun(int(differing), int(iteration), results, last)


def prepare(case: Case, sets: Sequence[Inputs], device: jax.Device) -> CallLoop:
    """Compiles a loop over these sets of inputs, and makes one call on each set for its expected results.

    Call it, and the loop, in the precision of the inputs and with ``device`` as JAX's default device.

    Args:
        case: The operator and the backend.
        sets: Inputs of equal shapes and dtypes.
        device: The device of the inputs.
    """
    operator, repeats = case.operator, keeps_bits(case)
    program = _program(operator, case.backend, specs(sets[0]), len(sets), repeats, device)

    def placed(rows: Sequence[Sequence[Array]]) -> list[jax.Array]:
        # XLA runs a program on this thread, which has the number of Numba's threads, only if all arrays are ready.
        arrays: list[jax.Array] = jax.block_until_ready(
            [jax.device_put(np.stack(column), device) for column in zip(*rows, strict=True)]
        )
        return arrays

    slack = [] if repeats else placed([_slack(operator.truth(*inputs)) for inputs in sets])
    blank = placed([[np.zeros(out.shape, out.dtype) for out in operator.outputs(*inputs)] for inputs in sets])
    unknown = CallLoop(program, placed(sets), blank, slack)
    results = [[np.asarray(leaf) for leaf in unknown.run(1, turn).last] for turn in range(len(sets))]
    return CallLoop(program, unknown.sets, placed(results), slack)


def keeps_bits(case: Case) -> bool:
    """Tells whether calls on equal inputs must have equal bits, also while other calls run."""
    operator, backend = case.operator, case.backend
    return operator.deterministic(backend, case.platform) and not operator.kernel(backend).parallel


def is_parallel(case: Case) -> bool:
    """Tells whether a kernel has parallel loops on the CPU."""
    return case.platform == "cpu" and case.operator.kernel(case.backend).parallel


REPEAT_S, MOST_S = 0.1, 2.0
"""Least seconds of processor time for which calls are repeated; and most seconds, for a busy machine."""


def until_concurrent(loop: CallLoop, count: int) -> LoopRun:
    """Runs a loop again and again, until a call differs or it has computed for long enough.

    On a busy machine the second thread of a parallel loop often begins when the first has ended.
    """
    begin, processor = time.perf_counter(), time.process_time()
    while True:
        run = loop.run(count)
        passed = time.perf_counter() - begin
        if run.differing or passed >= MOST_S or min(passed, time.process_time() - processor) >= REPEAT_S:
            return run


def calls_in(loop: CallLoop, seconds: float, most: int) -> int:
    """Returns how many calls take about ``seconds``: at least one for each set, at most ``most``."""
    count = least = len(loop.sets[0])
    while count < most:
        start = time.perf_counter()
        loop.run(count)
        each = (time.perf_counter() - start) / count
        if each * count > seconds / 4:
            return int(min(max(seconds / each, least), most))
        count *= 4
    return most


def large_size(case: Case) -> int:
    """Returns the large size of the operator, or the last of its small ones if large inputs take much memory."""
    sizes = case.operator.sizes
    large = case.operator.sample(case.dtype, sizes.large, 0)
    return sizes.large if total_bytes(*large) <= _MOST_BYTES else sizes.check[-1]


def long_size(case: Case) -> int:
    """Returns the large size, or a larger one at which truth does not take long.

    A parallel loop that ends before its second thread has begun shows no race.
    """
    size = large_size(case)
    while work(case.operator, case.dtype, _GROWTH * size) <= _MOST_LONG:
        size *= _GROWTH
    return size


def work(operator: Operator, dtype: str, size: int) -> float:
    """Returns about how many elements the inputs and all results in the reference have at a nominal size.

    It is extrapolated from the shapes at two small sizes, so no large array is made.
    """
    few, more = (_work(operator, dtype, each) for each in _MEASURED)
    power = np.log(max(more, 1) / max(few, 1)) / np.log(_MEASURED[1] / _MEASURED[0])
    # Constant-size inputs flatten the measured exponent, so assume at least linear growth.
    return float(more * (size / _MEASURED[1]) ** max(power, 1.0))


@functools.lru_cache(maxsize=256)
def _work(operator: Operator, dtype: str, size: int) -> int:
    inputs = operator.sample(dtype, size, 0)
    count = sum(array.size for array in inputs)
    try:
        return count + elements(jaxpr_of(operator.reference, inputs).jaxpr)
    except Exception:  # a reference that cannot be traced
        return count + sum(int(np.prod(out.shape)) for out in operator.outputs(*inputs))


@functools.lru_cache(maxsize=16)
def _program(
    operator: Operator,
    backend: Backend,
    inputs: tuple[jax.ShapeDtypeStruct, ...],
    sets: int,
    repeats: bool,
    device: jax.Device,
) -> Any:
    """Compiles a program that makes the calls of the iterations from ``first`` up to ``end``.

    It takes ``first``, ``end`` and the arrays of :class:`CallLoop`. It returns how many calls differed, the iteration
    and the results of the first of them, and the results of the last call.
    """
    call, outs = operator.build(backend, inputs), operator.outputs(*inputs)
    at = functools.partial(jax.lax.dynamic_index_in_dim, keepdims=False)
    Arrays = list[jax.Array]

    def run(first: Any, end: Any, stacked: Arrays, expected: Arrays, slack: Arrays) -> Any:
        def body(iteration: Any, carry: Any) -> Any:
            differing, first_wrong, wrong, _ = carry
            arguments, wanted, most = (
                [at(each, iteration % sets) for each in one] for one in (stacked, expected, slack)
            )
            results = [jnp.asarray(leaf) for leaf in jax.tree.leaves(call(*arguments))]
            mismatch = wrong_outputs(results, outs)
            if mismatch:
                raise CheckFailed(mismatch)
            most = most or [jnp.zeros(1)] * len(outs)
            same = [_same(*each, exactly=repeats) for each in zip(results, wanted, most, strict=True)]
            differs = ~jnp.all(jnp.array(same))
            first_wrong, wrong = jax.lax.cond(
                differs & (differing == 0), lambda: (iteration, results), lambda: (first_wrong, wrong)
            )
            return differing + differs.astype(jnp.int32), first_wrong, wrong, results

        zeros = [jnp.zeros(out.shape, out.dtype) for out in outs]
        return jax.lax.fori_loop(first, end, body, (jnp.int32(0), jnp.int32(0), zeros, zeros))

    def stack(each: Any, dtype: Any = None) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((sets, *each.shape), dtype or each.dtype)

    number = jax.ShapeDtypeStruct((), np.int32)
    most = [] if repeats else [stack(out, _slack_type(out.dtype)) for out in outs]
    with jax.default_device(device):
        return jax.jit(run).lower(number, number, list(map(stack, inputs)), list(map(stack, outs)), most).compile()


def _slack(truth: Truth) -> list[Array]:
    """Returns the largest difference of two right results, for each element of each output."""
    slacks = []
    for expected in truth.outputs:
        margin = np.zeros(()) if expected.margin is None else np.asarray(expected.margin, np.float64)
        slack = np.broadcast_to(2 * np.nan_to_num(margin, nan=0.0, posinf=np.inf), expected.value.shape)
        # Rounded up: the difference is rounded as well.
        slacks.append((slack * (1 + 1e-6)).astype(_slack_type(expected.dtype)))
    return slacks


def _slack_type(dtype: Any) -> Any:
    return np.float64 if np.dtype(dtype) in (np.float64, np.complex128) else np.float32


def _same(result: jax.Array, wanted: jax.Array, slack: jax.Array, *, exactly: bool) -> jax.Array:
    """Tells whether all elements have equal bits or, without ``exactly``, differ by no more than the slack."""
    same = _bits(result) == _bits(wanted)
    if not exactly:
        if np.dtype(result.dtype).kind == "b":
            result, wanted = result.astype(np.int32), wanted.astype(np.int32)
        elif kind_of(result.dtype) == "f":
            result, wanted = result.astype(slack.dtype), wanted.astype(slack.dtype)
        near = jnp.abs(result - wanted).astype(slack.dtype) <= slack
        same = near | (same.all(0) if same.ndim > near.ndim else same)
    all_same: jax.Array = jnp.all(same)
    return all_same


def _bits(array: jax.Array) -> jax.Array:
    """The bits of an array as integers, so that NaN equals itself and -0.0 differs from 0.0."""
    dtype = np.dtype(array.dtype)
    if dtype.kind in "biu":
        return array
    if dtype.kind == "c":
        return _bits(jnp.stack([array.real, array.imag]))
    return jax.lax.bitcast_convert_type(array, f"uint{8 * dtype.itemsize}")
