"""Computes true derivatives of drawn inputs, and tells which of their elements are decided.

A derivative jumps where the reference has a kink: at zero for a rectifier, between equal elements for a maximum. There
any of the one-sided derivatives is right, and what lies between. A kink shows if the inputs are moved by a few
roundings and the derivative changes much. Such an element must only be of a size that derivatives around it have.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from suites.backends.backend import Backend
from suites.checks.drawn.battery import smooth_battery
from suites.checks.drawn.decided import SEEDS, Judged, Undecided
from suites.checks.judging.gradients import cotangent_values, random_cotangents, true_cotangents
from suites.checks.pullback import pullback
from suites.declare.input_names import input_names
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs, specs
from suites.numerics.error_model import Expected, Truth, finfo
from suites.numerics.precision import precision
from suites.numerics.verdict import wrong_elements

MOVES = 4
"""How often the inputs are moved to find kinks."""

ROUNDINGS = 8
"""How far they are moved, in roundings."""

KINK = 0.01
"""The relative change of a derivative that shows a kink."""


def judged_gradient(operator: Operator, name: str, inputs: Inputs) -> tuple[list[Array], Judged]:
    """Returns random cotangents of the outputs, and the true cotangents of the inputs that have one.

    Raises:
        Undecided: The derivative of the reference raises on these inputs.
    """
    cotangents = random_cotangents(operator, inputs, SEEDS[0])
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            truth = true_cotangents(operator, inputs, cotangents)
            around = list(_moved(operator, inputs))
            moved = [cotangent_values(operator, each, cotangents) for each in around]
            # By chance, the derivatives on both sides of a kink may be nearly equal for one set of cotangents.
            others = random_cotangents(operator, inputs, SEEDS[0] + 1)
            again = [cotangent_values(operator, each, others) for each in (inputs, *around)]
            xla = _by_xla(operator, inputs, cotangents)
    except Exception as error:
        said = (str(error).strip() or "without a message").splitlines()[0]
        raise Undecided(
            f"the derivative of the reference raised {type(error).__name__} on drawn inputs ({name}): {said}. Declare "
            "the values that inputs may take: domains={...}."
        ) from error
    outputs, decided = [], []
    with np.errstate(all="ignore"):
        for index, expected in enumerate(truth.outputs):
            moves = np.stack([values[index] for values in moved])
            found, known = _without_kinks(expected, moves, _spread(np.stack([values[index] for values in again])))
            outputs.append(found)
            decided.append(known)
        whole = Truth(tuple(outputs))
        decided = [known & ~wrong for known, wrong in zip(decided, wrong_elements(xla, whole), strict=True)]
    return cotangents, Judged(name, inputs, whole, tuple(decided))


@functools.lru_cache(maxsize=8)
def gradient_battery(operator: Operator, dtype: str, size: int) -> tuple[tuple[list[Array], Judged], ...]:
    """Returns cotangents and true derivatives of the battery at one nominal size, made once for all backends.

    Raises:
        Undecided: The derivative of the reference raises on drawn inputs.
    """
    sample = operator.sample(dtype, size, SEEDS[0])
    names = input_names(operator.reference, len(sample))
    battery = smooth_battery(operator, sample, SEEDS, names)
    return tuple(judged_gradient(operator, each.name, each.inputs) for each in battery)


def _moved(operator: Operator, inputs: Inputs) -> Iterator[Inputs]:
    """Yields the inputs in float64, moved by a few roundings of their dtype in random directions."""
    random = np.random.default_rng(SEEDS)
    reaches = {
        index: ROUNDINGS * float(finfo(inputs[index].dtype).eps) * np.maximum(np.abs(inputs[index].astype(float)), 1e-3)
        for index in operator.differentiated(inputs)
    }
    for move in range(MOVES):
        direction = {
            index: (1 - 2 * (move % 2)) * (1.0 if move < 2 else random.choice([-1.0, 1.0], inputs[index].shape))
            for index in reaches
        }
        yield tuple(
            array.astype(np.float64) + direction[index] * reaches[index] * random.uniform(0.5, 1, array.shape)
            if index in reaches
            else array
            for index, array in enumerate(inputs)
        )


def _spread(values: Array) -> Array:
    """True where values, along the first axis, differ by more than a smooth function of moved inputs does."""
    finite = np.isfinite(values).all(axis=0)
    spread = np.max(values, axis=0) - np.min(values, axis=0)
    return np.asarray(finite & (spread > KINK * np.abs(values[0])))


def _without_kinks(expected: Expected, others: Array, kinks: Array) -> tuple[Expected, Array]:
    """Returns what is expected if kinks are allowed for, and where it is finite.

    Args:
        expected: The true derivative.
        others: The derivative at moved inputs, along the first axis.
        kinks: True where other cotangents show a kink.
    """
    value, margin = expected.value, np.broadcast_to(np.asarray(expected.margin), expected.value.shape)
    known = np.isfinite(value) & np.isfinite(margin) & np.isfinite(others).all(axis=0)
    least, most = np.minimum(others.min(axis=0), value), np.maximum(others.max(axis=0), value)
    spread = most - least
    kink = known & (kinks | (spread > KINK * np.abs(value) + margin))
    largest = float(np.max(np.abs(others), initial=0.0, where=np.isfinite(others)))
    value = np.where(kink, 0, value)
    margin = np.where(kink, 2 * largest + margin, margin + np.where(known, spread, 0))
    return replace(expected, value=value, margin=margin), known


def _by_xla(operator: Operator, inputs: Inputs, cotangents: Sequence[Array]) -> list[Array]:
    with precision(*(array.dtype for array in inputs)), jax.default_device(jax.local_devices(backend="cpu")[0]):
        _, found = _compiled(operator, specs(inputs))(inputs, cotangents)
        return [np.asarray(each) for each in found]


@functools.lru_cache(maxsize=64)
def _compiled(operator: Operator, inputs: Sequence[Any]) -> Callable[..., Any]:
    return jax.jit(pullback(operator.build(Backend.JNP, inputs), operator))
