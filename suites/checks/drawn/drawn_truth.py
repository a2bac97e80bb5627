"""Computes the truth of drawn inputs, and which elements of the results can be judged by it.

An element cannot be judged if

- its derived bound is infinite, because an intermediate result is unknown;
- XLA's own code for the reference, in the tested dtypes, is outside of the bound, for example because XLA's threads
  flush subnormal numbers to zero: then a kernel may be outside too;
- it depends on an integer that each language defines in its own way, such as a quotient by zero.

All other elements must be right, for any values. An integer or a boolean may have several right values: the truth,
computed in wide floats; the result of XLA's own code, computed from rounded numbers; and the result with signed
integers of 64 bits, which Numba uses and which do not overflow where 32 bits do. The last one does not count if the
reference depends on the width, as a logical shift does. Unsigned integers wrap around in every language.

A derivative jumps where the reference has a kink: at zero for a rectifier, between equal elements for a maximum. There
both one-sided derivatives are right, and all values between them, so the element is not judged. There is a kink if the
derivative changes much when the inputs change by a few roundings.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.backends import BACKENDS, Backend
from suites.checks.drawn.drawn_inputs import battery
from suites.checks.drawn.shrinking import cure, is_finite, shrunk
from suites.checks.judging.cell_verdict import judge_bare
from suites.checks.judging.gradients import cotangent_values, random_cotangents, true_cotangents
from suites.checks.judging.reasons import with_inputs
from suites.declare.input_arrays import input_names
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs, specs
from suites.numerics.derived import derived_truth
from suites.numerics.error_model import Expected, Truth, finfo
from suites.numerics.jaxpr import depends_on_width, keeps_zero_signs, may_be_undefined, with_other_integers
from suites.numerics.precision import precision
from suites.numerics.verdict import ResultVerdict, judge_where, wrong_elements

SEEDS = (20_260,)
"""Seeds of the batteries, which are the same in every session."""


class NoTruthError(Exception):
    """Drawn inputs have no truth to judge kernels by. The message says why."""


@dataclass(frozen=True)
class DrawnTruth:
    """Drawn inputs with their truth.

    Attributes:
        name: The name of the pattern.
        inputs: The inputs.
        truth: The true results.
        judgeable: For each output, True where an element can be judged.
        others: For each output, arrays of further right values.
        cotangents: The cotangents of the outputs, if the truth is a derivative.
    """

    name: str
    inputs: Inputs
    truth: Truth
    judgeable: tuple[Array, ...]
    others: tuple[list[Array], ...] = ()
    cotangents: Sequence[Array] = ()

    @property
    def share(self) -> float:
        """The share of all elements that can be judged; 1 if there are no elements."""
        size = sum(each.size for each in self.judgeable)
        return sum(int(each.sum()) for each in self.judgeable) / size if size else 1.0

    def judge(self, results: list[Array]) -> ResultVerdict:
        """Judges the elements of results that can be judged."""
        return judge_where(self.judgeable, results, self.truth, self.others)


@contextlib.contextmanager
def _no_truth(what: str, name: str) -> Iterator[None]:
    """Turns an exception of the author's functions on drawn inputs into an error that says what to declare."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except Exception as error:
        message = (str(error).strip() or "without a message").splitlines()[0]
        raise NoTruthError(
            f"{what} raised {type(error).__name__} on drawn inputs ({name}): {message}. Declare the values that inputs "
            "may take: domains={...}."
        ) from error


def drawn_truth(operator: Operator, name: str, inputs: Inputs) -> DrawnTruth:
    """Computes the truth of drawn inputs, and which elements can be judged.

    Raises:
        NoTruthError: The operator's truth raises on these inputs.
    """
    with _no_truth("truth", name):
        truth = _truth(operator, inputs)
    with np.errstate(all="ignore"):
        judgeable = [
            np.isfinite(np.broadcast_to(0.0 if each.margin is None else each.margin, each.value.shape))
            for each in truth.outputs
        ]
        others: tuple[list[Array], ...] = tuple([] for _ in judgeable)
        for are_right, results in _by_xla(operator, inputs):
            for index, wrong in enumerate(wrong_elements(results, truth)):
                for right in others[index]:
                    wrong &= results[index] != right
                if are_right and results[index].dtype.kind in "iub":
                    others[index].extend([results[index]] if wrong.any() else [])
                else:
                    judgeable[index] = judgeable[index] & ~wrong
    return DrawnTruth(name, inputs, truth, tuple(judgeable), others)


@functools.lru_cache(maxsize=8)
def battery_truths(operator: Operator, dtype: str, size: int) -> tuple[DrawnTruth, ...]:
    """Returns the battery of an operator at one nominal size with its truths, made once for all backends.

    Raises:
        NoTruthError: The operator's truth raises on drawn inputs.
    """
    return tuple(drawn_truth(operator, *drawn) for drawn in battery(operator, dtype, size, SEEDS))


def _truth(operator: Operator, inputs: Inputs) -> Truth:
    if not operator.derives_truth:
        return operator.truth(*inputs)
    truth = derived_truth(operator.reference, inputs, operator.tolerance, keeps_unknown=True)
    if not keeps_zero_signs(operator.reference, inputs):
        return truth
    return replace(truth, outputs=tuple(map(_with_zero_signs, truth.outputs)))


def _with_zero_signs(expected: Expected) -> Expected:
    """Requires the sign of each zero that is exact."""
    if expected.value.dtype.kind != "f" or expected.margin is None:
        return expected
    return replace(expected, signed_zero=(expected.value == 0) & (expected.margin == 0))


def _by_xla(operator: Operator, inputs: Inputs) -> Iterator[tuple[bool, list[Array]]]:
    """Yields results of the reference: as XLA compiles it, with other integers, and with int64 on the CPU.

    The results with other integers are not right. They only show which elements depend on undefined integers.
    """
    cpu = jax.local_devices(backend="cpu")[0]
    has_integers = any(np.dtype(out.dtype).kind in "iub" for out in operator.outputs(*inputs))
    # A GPU may round an exact quotient, so that a comparison has another result.
    for device in dict.fromkeys((cpu, jax.local_devices()[0] if has_integers else cpu)):
        with jax.default_device(device), precision(*(array.dtype for array in inputs)):
            for number, compiled in enumerate(_compiled(operator, specs(inputs))):
                yield number == 0, [np.asarray(leaf) for leaf in compiled(*inputs)]
    with jax.default_device(cpu):
        if any(array.dtype.kind == "i" and array.dtype.itemsize < 8 for array in inputs):
            widened = tuple(array.astype(np.int64) if array.dtype.kind == "i" else array for array in inputs)
            with jax.enable_x64(True):
                call = _with_wide_integers(operator, specs(widened))
                if call is not None:
                    pairs = zip(call(*widened), operator.outputs(*inputs), strict=True)
                    yield True, [np.asarray(leaf).astype(out.dtype) for leaf, out in pairs]


@functools.lru_cache(maxsize=64)
def _compiled(operator: Operator, inputs: Sequence[Any]) -> tuple[Callable[..., list[jax.Array]], ...]:
    compiled = jax.jit(operator.build(BACKENDS["jnp"], inputs))
    others = may_be_undefined(operator.reference, inputs)  # type: ignore[arg-type]
    return (compiled, with_other_integers(operator.reference)) if others else (compiled,)


@functools.lru_cache(maxsize=64)
def _with_wide_integers(operator: Operator, inputs: Sequence[Any]) -> Callable[..., list[jax.Array]] | None:
    """Returns the compiled reference for integers of 64 bits; None if it cannot take them or returns only floats."""
    try:
        call = jax.jit(operator.build(BACKENDS["jnp"], inputs))
        outs = jax.eval_shape(call, *inputs)
        if depends_on_width(operator.reference, inputs):  # type: ignore[arg-type]
            return None
    except Exception:  # the reference asks for another dtype
        return None
    return call if any(np.dtype(out.dtype).kind in "iub" for out in outs) else None


def judge_battery(
    operator: Operator, backend: Backend, dtype: str, size: int, device: jax.Device
) -> Iterator[tuple[str, ResultVerdict]]:
    """Yields the name and the verdict of each pattern of an operator's battery; a failure is shrunk.

    Raises:
        NoTruthError: No element of any pattern can be judged, or the operator's truth raises on drawn inputs.
    """
    battery = battery_truths(operator, dtype, size)
    if not any(each.share for each in battery):
        raise NoTruthError(
            f"on {len(battery)} patterns of drawn inputs of {size} elements, XLA's own code for the reference is "
            "nowhere within the error bound, so no kernel can be judged by it. Declare a truth or a tolerance."
        )

    def judge(drawn: DrawnTruth) -> ResultVerdict:
        return judge_bare(operator, backend, drawn.inputs, device, by=drawn.judge)

    # Finite inputs come first, so a kernel that fails later differs for infinities or NaN only.
    for each in sorted(battery, key=lambda drawn: not is_finite(drawn.inputs)):
        yield each.name, judge_shrunk(operator, each, judge, drawn_truth)


def judge_shrunk(
    operator: Operator,
    drawn: DrawnTruth,
    judge: Callable[[DrawnTruth], ResultVerdict],
    truth: Callable[..., DrawnTruth],
) -> ResultVerdict:
    """Judges a kernel on drawn inputs; if it is wrong, on the simplest inputs that show it.

    Args:
        operator: The operator.
        drawn: The inputs.
        judge: Judges the kernel on inputs with their truth.
        truth: Finds the truth of simpler inputs: :func:`judged` or :func:`gradient_truth`.
    """
    verdict = judge(drawn)
    if not verdict.status.wrong:
        return with_cure(operator, drawn.inputs, verdict)
    inputs, simplest = shrunk(
        operator, drawn.inputs, verdict, lambda inputs: judge(truth(operator, drawn.name, inputs))
    )
    if simplest.status is Status.WRONG_VALUE and not is_finite(inputs):
        which = "infinite" if any(np.isinf(array).any() for array in inputs) else "NaN"
        advice = cure(operator, input_names(operator.reference, len(inputs)), inputs, simplest)
        return replace(with_inputs(simplest, operator, inputs), cause=f"differs for {which} inputs only ({advice})")
    # A cause that fits only few simple elements may be chance, so the cause of the first verdict stays.
    return replace(with_cure(operator, inputs, simplest), cause=verdict.cause)


def with_cure(operator: Operator, inputs: Inputs, verdict: ResultVerdict) -> ResultVerdict:
    """Adds advice to the reason of a failure, for an author whose kernel need not take such inputs."""
    if verdict.status is Status.PASSED:
        return verdict
    if "; inputs: " not in (verdict.reason or ""):
        verdict = with_inputs(verdict, operator, inputs)
    advice = cure(operator, input_names(operator.reference, len(inputs)), inputs, verdict)
    return replace(verdict, reason=f"{verdict.reason} ({advice})") if advice else verdict


MOVES = 4
"""How often the inputs are changed to find kinks."""

ROUNDINGS = 8
"""How far they are changed, in roundings."""

KINK = 0.01
"""The relative change of a derivative that shows a kink."""


def gradient_truth(operator: Operator, name: str, inputs: Inputs) -> DrawnTruth:
    """Computes the true cotangents of the differentiable inputs, for random cotangents of the outputs.

    Raises:
        NoTruthError: The derivative of the reference raises on these inputs.
    """
    cotangents, others = (random_cotangents(operator, inputs, seed) for seed in (SEEDS[0], SEEDS[0] + 1))
    with _no_truth("the derivative of the reference", name):
        truth = true_cotangents(operator, inputs, cotangents)
        # By chance, the derivatives on both sides of a kink may be nearly equal for one set of cotangents.
        spreads, more = (_spreads(operator, inputs, each) for each in (cotangents, others))
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            xla = cotangent_values(operator, inputs, cotangents, wide=False)
    outputs, judgeable = [], []
    with np.errstate(all="ignore"):
        for expected, (size, spread), (other_size, other) in zip(truth.outputs, spreads, more, strict=True):
            bound = np.asarray(expected.margin)
            smooth = (spread <= KINK * size + bound) & (other <= KINK * other_size + bound)
            judgeable.append(np.isfinite(expected.value) & np.isfinite(bound + spread) & smooth)
            outputs.append(replace(expected, margin=bound + spread))
        wrong = wrong_elements(xla, Truth(tuple(outputs)))
    judgeable_elements = tuple(each & ~off for each, off in zip(judgeable, wrong, strict=True))
    return DrawnTruth(name, inputs, Truth(tuple(outputs)), judgeable_elements, cotangents=cotangents)


def _spreads(operator: Operator, inputs: Inputs, cotangents: list[Array]) -> list[tuple[Array, Array]]:
    """Returns the size of each derivative, and how far it changes if the inputs change by a few roundings."""
    several = [cotangent_values(operator, each, cotangents) for each in (inputs, *_moved(operator, inputs))]
    return [(np.abs(values[0]), np.ptp(np.stack(values), axis=0)) for values in zip(*several, strict=True)]


@functools.lru_cache(maxsize=8)
def gradient_battery(operator: Operator, dtype: str, size: int) -> tuple[DrawnTruth, ...]:
    """Returns the true derivatives of the battery at one nominal size, made once for all backends.

    Raises:
        NoTruthError: The derivative of the reference raises on drawn inputs.
    """
    return tuple(gradient_truth(operator, *drawn) for drawn in battery(operator, dtype, size, SEEDS, smooth=True))


def _moved(operator: Operator, inputs: Inputs) -> Iterator[Inputs]:
    """Yields the inputs in float64, changed by a few roundings of their dtype: all up, all down, in random ways."""
    random = np.random.default_rng(SEEDS)
    moving = operator.differentiated(inputs)
    for move in range(MOVES):
        changed = list(inputs)
        for index in moving:
            array = inputs[index].astype(np.float64)
            reach = ROUNDINGS * float(finfo(inputs[index].dtype).eps) * np.maximum(np.abs(array), 1e-3)
            signs = random.choice([-1.0, 1.0], array.shape) if move > 1 else 1 - 2 * move
            changed[index] = array + signs * reach * random.uniform(0.5, 1, array.shape)
        yield tuple(changed)
