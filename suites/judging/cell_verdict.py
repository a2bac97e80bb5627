"""Judges one cell: builds the callable, compiles it, runs it on poisoned outputs, and compares the results with truth.

How outputs are poisoned: the checked program takes, besides its inputs, one donated array per output. Donation makes
XLA use exactly that memory for the output, so what the array was filled with is what an element holds that nothing
writes. (That the memory is the same is asserted.) Two runs with different patterns must agree bit for bit.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import msgspec
import numpy as np

from reports import Status
from suites.backends.backend import Backend
from suites.declare.operator import Operator
from suites.inputs.arrays import Inputs, specs
from suites.inputs.precision import precision as precision
from suites.judging.leftovers import leftovers
from suites.judging.repetition import judge_all
from suites.truth.verdict import Verdict, judge

Array = np.ndarray[Any, Any]

POISONS = (0xFF, 0x5A)
"""Bytes that outputs are filled with: NaN (or -1), and a large ordinary number."""


def check(operator: Operator, backend: Backend, inputs: Inputs, device: jax.Device | None = None) -> Verdict:
    """Whether one backend is right on these inputs, as a status with a reason rather than as an exception.

    In this order: it compiles, the compiled program contains the custom call, it runs, its inputs are unchanged, every
    output was written (and equal inputs give equal bits), results are right.
    """
    placed = jax.default_device(device) if device else contextlib.nullcontext()
    with precision(*(array.dtype for array in inputs)), placed:
        arguments = [jax.device_put(array) for array in inputs]
        (where,) = jax.device_put(0).devices()
        on_host = where.platform == "cpu"
        platform = "cpu" if on_host else "cuda"
        outs = operator.outputs(*inputs)
        try:
            program = _program(operator, backend, specs(inputs), where)
        except Exception as error:
            return Verdict(Status.COMPILE_ERROR, described(error), None)
        # XLA drops a call whose results are all empty.
        calls = operator.calls(backend) if any(np.prod(out.shape) for out in outs) else 0
        missing = missing_custom_call(program.as_text(), backend, platform, calls)
        if missing:
            return Verdict(Status.COMPILE_ERROR, missing, None)
        before = fingerprint(inputs) if on_host else ""
        try:
            runs = [run_poisoned(program, outs, arguments, poison) for poison in POISONS]
        except Exception as error:
            return Verdict(Status.RUNTIME_ERROR, described(error), None)
        after = [np.asarray(array) for array in arguments]
        # On a CPU the arguments may share the memory of the inputs, so that only a hash tells.
        if not (fingerprint(after) == before if on_host else _same_bits(after, inputs)):
            return Verdict(Status.INPUT_MUTATED, "an input has other bits after the call than before", None)
        disagreement = _disagreement(operator.deterministic(backend, platform), runs[0], runs[1])
        return with_inputs(disagreement or judge_all(operator, runs[0], inputs), operator, inputs)


def check_results(operator: Operator, inputs: Inputs, results: Any) -> Verdict:
    """Whether results that were computed in some other way (eagerly, under a transformation) are right."""
    verdict = judge([np.asarray(leaf) for leaf in jax.tree.leaves(results)], operator.truth(*inputs))
    return with_inputs(verdict, operator, inputs)


SHOWN_ELEMENTS = 8
"""Inputs of at most so many elements are shown whole beside a failure."""


def with_inputs(verdict: Verdict, operator: Operator, inputs: Inputs) -> Verdict:
    """The verdict, with the inputs that reproduce it in the reason of one that is not PASSED.

    Short inputs are shown whole, others by shape, with the element at the place of the worst result if there is one.
    """
    if verdict.status is Status.PASSED:
        return verdict
    place = tuple(verdict.accuracy.worst_index) if verdict.accuracy and verdict.accuracy.worst_index else None
    # An operator's reference takes any number of inputs; the function that its author gave has names for them.
    names = [*inspect.signature(getattr(operator.reference, "given", operator.reference)).parameters]
    named = zip(names if len(names) == len(inputs) else map(str, range(len(inputs))), inputs, strict=True)
    return replace(verdict, reason=f"{verdict.reason}; inputs: {', '.join(_shown(*one, place) for one in named)}")


def _shown(name: str, array: Array, place: tuple[int, ...] | None) -> str:
    if array.size <= SHOWN_ELEMENTS:
        return f"{name} = {array.dtype} {array.tolist()}"
    shape = f"{name}: {array.dtype}{list(array.shape)}"
    if place is None or len(place) != array.ndim or any(i >= n for i, n in zip(place, array.shape, strict=True)):
        return shape
    return f"{shape}, {name}{list(place)} = {array[place]}"


def with_reference(verdict: Verdict, operator: Operator, inputs: Inputs) -> Verdict:
    """The verdict with the error of XLA's own implementation on the same inputs beside it."""
    if verdict.accuracy is None:
        return verdict
    share = _reference_budget(operator, fingerprint(inputs), _Held(inputs))
    return replace(verdict, accuracy=msgspec.structs.replace(verdict.accuracy, reference_budget_used=share))


def fingerprint(arrays: Sequence[Array]) -> str:
    """Equal for equal bits, shapes and dtypes."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def missing_custom_call(program: str, backend: Backend, platform: str, expected: int = 1) -> str | None:
    """Why a compiled program (its text) is not evidence for this backend, or None if it is.

    A program of a kernel backend calls its target on the platform exactly ``expected`` times and no other of ours; one
    of XLA's own operations calls none.
    """
    calls = {other.custom_call(where) for other in Backend for where in other.platforms}
    own = backend.custom_call(platform)
    for target in sorted(call for call in calls if call):
        found, wanted = program.count(f'custom_call_target="{target}"'), expected if target == own else 0
        if found != wanted:
            return f"the compiled program contains {found} calls of {target}, expected {wanted}"
    return None


def compile_poisoned(call: Callable[..., Any], outs: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """Compiles ``call`` so that its outputs lie in the memory of its first argument, a list of arrays like ``outs``."""

    def run(poison: list[jax.Array], *arguments: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(call(*arguments))

    poison = [jax.ShapeDtypeStruct(out.shape, out.dtype) for out in outs]
    return jax.jit(run, donate_argnums=0, keep_unused=True).lower(poison, *arguments).compile()


def run_poisoned(program: Any, outs: Sequence[Any], arguments: Sequence[Any], byte: int) -> list[Array]:
    """Results of a program of :func:`compile_poisoned` whose outputs, and :func:`leftovers`, held ``byte`` before."""
    poison = [_filled(out, byte) for out in outs]
    addresses = [array.unsafe_buffer_pointer() for array in poison]
    with leftovers(program, byte, next(iter(poison[0].devices()))):
        results = jax.block_until_ready(program(poison, *arguments))
    for result, address, out in zip(results, addresses, outs, strict=True):
        same_type = result.shape == tuple(out.shape) and result.dtype == out.dtype
        if result.size and same_type and result.unsafe_buffer_pointer() != address:
            raise AssertionError("XLA did not use the donated memory for an output, so poisoning it proves nothing")
    return [np.array(result) for result in results]


def _filled(out: Any, byte: int) -> jax.Array:
    dtype = np.dtype(out.dtype)
    # Memory that JAX borrows from NumPy cannot be donated; what begins at no multiple of 64 bytes is copied.
    # (jnp.array(copy=True) would compile a program for each shape.)
    pattern = np.full(8 + int(np.prod(out.shape)) * dtype.itemsize, byte, np.uint8)[8:]
    filled: jax.Array = jax.device_put(pattern.view(dtype).reshape(out.shape)).block_until_ready()
    return filled


def _disagreement(deterministic: bool, first: list[Array], second: list[Array]) -> Verdict | None:
    """Tells an unwritten element from a result that varies by itself."""
    differing = [index for index, (a, b) in enumerate(zip(first, second, strict=True)) if a.tobytes() != b.tobytes()]
    if not differing:
        return None
    index = differing[0]
    # What nothing wrote still holds the pattern of its run.
    unwritten = np.ones(first[index].size, bool)
    for result, byte in ((first[index], POISONS[0]), (second[index], POISONS[1])):
        unwritten &= (result.reshape(-1, 1).view(np.uint8) == byte).all(axis=1)
    if unwritten.any():
        reason = f"output {index}: {int(unwritten.sum())} of {unwritten.size} elements were never written"
        return Verdict(Status.UNWRITTEN_OUTPUT, reason, None)
    if deterministic:
        return Verdict(Status.NONDETERMINISTIC, f"output {index} differs between two runs on the same inputs", None)
    return None


def described(error: Exception) -> str:
    """An exception as the reason of a record."""
    return f"{type(error).__name__}: {str(error).strip() or 'without a message'}"


def _same_bits(arrays: Sequence[Array], others: Sequence[Array]) -> bool:
    pairs = zip(arrays, others, strict=True)
    return all(np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)) for a, b in pairs)


@functools.lru_cache(maxsize=256)
def _program(operator: Operator, backend: Backend, inputs: tuple[jax.ShapeDtypeStruct, ...], where: jax.Device) -> Any:
    return compile_poisoned(operator.build(backend, inputs), operator.outputs(*inputs), inputs)


class _Held:
    """Arguments that a cache does not look at, because the others identify them."""

    def __init__(self, inputs: Inputs):
        self.inputs = inputs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=64)
def _reference_budget(operator: Operator, digest: str, held: _Held) -> float | None:
    verdict = check(operator, Backend.JNP, held.inputs)
    return verdict.accuracy.budget_used if verdict.accuracy else None
