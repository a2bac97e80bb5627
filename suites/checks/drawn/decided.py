"""Tells which elements of a result are decided on drawn inputs, so that a right kernel is not blamed for the others.

An element is undecided where

- its derived bound is infinite, because nothing is known of an intermediate result;
- XLA's own code for the reference, in the tested dtypes, is outside of the bound, because XLA's threads flush subnormal
  numbers to zero, for instance: a kernel that fails too is not to blame;
- it depends on an integer that each language defines in its own way, such as a quotient by zero.

All others must be right, whatever the values are. An integer or a boolean may have several right values: of truth, in
wide floats; of XLA's own code, which decides by rounded numbers; and of signed integers of 64 bits, as Numba's are,
which do not overflow where 32 bits do, unless the reference depends on their width, as a logical shift does. Unsigned
integers wrap around in every language.

A derivative jumps where the reference has a kink: at zero for a rectifier, between equal elements for a maximum. There
any of the one-sided derivatives is right, and what lies between, so that nothing is decided. A kink shows if the inputs
are moved by a few roundings and the derivative changes much.
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
from suites.declare.given_inputs import input_names
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs, specs
from suites.numerics.derived import derived_truth
from suites.numerics.error_model import Expected, Truth, finfo
from suites.numerics.precision import precision
from suites.numerics.traced import depends_on_width, keeps_zero_signs, may_be_undefined, with_other_integers
from suites.numerics.verdict import Verdict, judge_where, wrong_elements

SEEDS = (20_260,)
"""Seeds of the batteries, which are the same in every session."""


class Undecided(Exception):
    """No truth can be computed on drawn inputs. The message says why."""


@dataclass(frozen=True)
class Judged:
    """Drawn inputs with their truth.

    Attributes:
        name: The name of the pattern.
        inputs: The inputs.
        truth: The true results.
        decided: For each output, True where an element is decided.
        others: For each output, arrays of further right values.
        cotangents: The cotangents of the outputs, if the truth is a derivative.
    """

    name: str
    inputs: Inputs
    truth: Truth
    decided: tuple[Array, ...]
    others: tuple[list[Array], ...] = ()
    cotangents: Sequence[Array] = ()

    @property
    def share(self) -> float:
        """The share of all elements that is decided; 1 if there are none."""
        size = sum(each.size for each in self.decided)
        return sum(int(each.sum()) for each in self.decided) / size if size else 1.0

    def judge(self, results: list[Array]) -> Verdict:
        """Judges results by the elements that are decided."""
        return judge_where(self.decided, results, self.truth, self.others)


@contextlib.contextmanager
def _undecided(what: str, name: str) -> Iterator[None]:
    """Makes an exception of the author's functions on drawn inputs one that says what to declare."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except Exception as error:
        said = (str(error).strip() or "without a message").splitlines()[0]
        raise Undecided(
            f"{what} raised {type(error).__name__} on drawn inputs ({name}): {said}. Declare the values that inputs "
            "may take: domains={...}."
        ) from error


def judged(operator: Operator, name: str, inputs: Inputs) -> Judged:
    """Computes the truth of drawn inputs, and which elements are decided.

    Raises:
        Undecided: The operator's truth raises on these inputs.
    """
    with _undecided("truth", name):
        truth = _truth(operator, inputs)
    with np.errstate(all="ignore"):
        decided = [
            np.isfinite(np.broadcast_to(0.0 if each.margin is None else each.margin, each.value.shape))
            for each in truth.outputs
        ]
        others: tuple[list[Array], ...] = tuple([] for _ in decided)
        for are_right, results in _by_xla(operator, inputs):
            for index, wrong in enumerate(wrong_elements(results, truth)):
                for right in others[index]:
                    wrong &= results[index] != right
                if are_right and results[index].dtype.kind in "iub":
                    others[index].extend([results[index]] if wrong.any() else [])
                else:
                    decided[index] = decided[index] & ~wrong
    return Judged(name, inputs, truth, tuple(decided), others)


@functools.lru_cache(maxsize=8)
def judged_battery(operator: Operator, dtype: str, size: int) -> tuple[Judged, ...]:
    """Returns the battery of an operator at one nominal size with its truths, made once for all backends.

    Raises:
        Undecided: The operator's truth raises on drawn inputs.
    """
    return tuple(judged(operator, *drawn) for drawn in battery(operator, dtype, size, SEEDS))


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

    The results with other integers show what depends on them. They are not right.
    """
    cpu = jax.local_devices(backend="cpu")[0]
    has_integers = any(np.dtype(out.dtype).kind in "iub" for out in operator.outputs(*inputs))
    # A GPU may round a quotient that fits, and so decide otherwise.
    for device in dict.fromkeys((cpu, jax.local_devices()[0] if has_integers else cpu)):
        with jax.default_device(device), precision(*(array.dtype for array in inputs)):
            for number, compiled in enumerate(_compiled(operator, specs(inputs))):
                yield number == 0, [np.asarray(leaf) for leaf in compiled(*inputs)]
    with jax.default_device(cpu):
        if any(array.dtype.kind == "i" and array.dtype.itemsize < 8 for array in inputs):
            widened = tuple(array.astype(np.int64) if array.dtype.kind == "i" else array for array in inputs)
            with jax.enable_x64(True):
                found = _with_wide_integers(operator, specs(widened))
                if found is not None:
                    pairs = zip(found(*widened), operator.outputs(*inputs), strict=True)
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
) -> Iterator[tuple[str, Verdict]]:
    """Yields the name and the verdict of each pattern of an operator's battery; a failure is shrunk.

    Raises:
        Undecided: No element of any pattern is decided, or the operator's truth raises on drawn inputs.
    """
    battery = judged_battery(operator, dtype, size)
    if not any(each.share for each in battery):
        raise Undecided(
            f"on {len(battery)} patterns of drawn inputs of {size} elements, XLA's own code for the reference is "
            "nowhere within the error bound, so no kernel can be judged by it. Declare a truth or a tolerance."
        )

    def judge(drawn: Judged) -> Verdict:
        return judge_bare(operator, backend, drawn.inputs, device, by=drawn.judge)

    # Finite inputs come first: a kernel that fails later differs for infinities or NaN only.
    for each in sorted(battery, key=lambda drawn: not is_finite(drawn.inputs)):
        yield each.name, judge_shrunk(operator, each, judge, judged)


def judge_shrunk(
    operator: Operator, drawn: Judged, judge: Callable[[Judged], Verdict], truth: Callable[..., Judged]
) -> Verdict:
    """Judges a kernel on drawn inputs; if it is wrong, on the simplest inputs that show it.

    Args:
        operator: The operator.
        drawn: The inputs.
        judge: Judges the kernel on inputs with their truth.
        truth: Finds the truth of simpler inputs: :func:`judged` or :func:`judged_gradient`.
    """
    verdict = judge(drawn)
    if not verdict.status.wrong:
        return with_cure(operator, drawn.inputs, verdict)
    inputs, found = shrunk(operator, drawn.inputs, verdict, lambda inputs: judge(truth(operator, drawn.name, inputs)))
    if found.status is Status.WRONG_VALUE and not is_finite(inputs):
        which = "infinite" if any(np.isinf(array).any() for array in inputs) else "NaN"
        advice = cure(operator, input_names(operator.reference, len(inputs)), inputs, found)
        return replace(with_inputs(found, operator, inputs), cause=f"differs for {which} inputs only ({advice})")
    # What few simple elements have in common may be chance.
    return replace(with_cure(operator, inputs, found), cause=verdict.cause)


def with_cure(operator: Operator, inputs: Inputs, verdict: Verdict) -> Verdict:
    """Adds to the reason of a failure what an author may do if the kernel need not take such inputs."""
    if verdict.status is Status.PASSED:
        return verdict
    if "; inputs: " not in (verdict.reason or ""):
        verdict = with_inputs(verdict, operator, inputs)
    advice = cure(operator, input_names(operator.reference, len(inputs)), inputs, verdict)
    return replace(verdict, reason=f"{verdict.reason} ({advice})") if advice else verdict


MOVES = 4
"""How often the inputs are moved to find kinks."""

ROUNDINGS = 8
"""How far they are moved, in roundings."""

KINK = 0.01
"""The relative change of a derivative that shows a kink."""


def judged_gradient(operator: Operator, name: str, inputs: Inputs) -> Judged:
    """Computes the true cotangents of the inputs that have one, for random cotangents of the outputs.

    Raises:
        Undecided: The derivative of the reference raises on these inputs.
    """
    cotangents, others = (random_cotangents(operator, inputs, seed) for seed in (SEEDS[0], SEEDS[0] + 1))
    with _undecided("the derivative of the reference", name):
        truth = true_cotangents(operator, inputs, cotangents)
        # By chance, the derivatives on both sides of a kink may be nearly equal for one set of cotangents.
        spreads, more = (_spreads(operator, inputs, given) for given in (cotangents, others))
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            xla = cotangent_values(operator, inputs, cotangents, wide=False)
    outputs, decided = [], []
    with np.errstate(all="ignore"):
        for expected, (size, spread), (other_size, other) in zip(truth.outputs, spreads, more, strict=True):
            bound = np.asarray(expected.margin)
            smooth = (spread <= KINK * size + bound) & (other <= KINK * other_size + bound)
            decided.append(np.isfinite(expected.value) & np.isfinite(bound + spread) & smooth)
            outputs.append(replace(expected, margin=bound + spread))
        wrong = wrong_elements(xla, Truth(tuple(outputs)))
    known = tuple(each & ~off for each, off in zip(decided, wrong, strict=True))
    return Judged(name, inputs, Truth(tuple(outputs)), known, cotangents=cotangents)


def _spreads(operator: Operator, inputs: Inputs, cotangents: list[Array]) -> list[tuple[Array, Array]]:
    """The size of each derivative, and how far it changes where the inputs are moved."""
    several = [cotangent_values(operator, each, cotangents) for each in (inputs, *_moved(operator, inputs))]
    return [(np.abs(values[0]), np.ptp(np.stack(values), axis=0)) for values in zip(*several, strict=True)]


@functools.lru_cache(maxsize=8)
def gradient_battery(operator: Operator, dtype: str, size: int) -> tuple[Judged, ...]:
    """Returns the true derivatives of the battery at one nominal size, made once for all backends.

    Raises:
        Undecided: The derivative of the reference raises on drawn inputs.
    """
    return tuple(judged_gradient(operator, *drawn) for drawn in battery(operator, dtype, size, SEEDS, smooth=True))


def _moved(operator: Operator, inputs: Inputs) -> Iterator[Inputs]:
    """Yields the inputs in float64, moved by a few roundings of their dtype: all up, all down, in random directions."""
    random = np.random.default_rng(SEEDS)
    moving = operator.differentiated(inputs)
    for move in range(MOVES):
        found = list(inputs)
        for index in moving:
            array = inputs[index].astype(np.float64)
            reach = ROUNDINGS * float(finfo(inputs[index].dtype).eps) * np.maximum(np.abs(array), 1e-3)
            signs = random.choice([-1.0, 1.0], array.shape) if move > 1 else 1 - 2 * move
            found[index] = array + signs * reach * random.uniform(0.5, 1, array.shape)
        yield tuple(found)
