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
from suites.checks.drawn.decided import SEEDS, Judged, Undecided
from suites.checks.drawn.drawn_inputs import smooth_battery
from suites.checks.judging.gradients import cotangent_values, pullback, random_cotangents, true_cotangents
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
            # By chance, the derivatives on both sides of a kink may be nearly equal for one set of cotangents.
            others = random_cotangents(operator, inputs, SEEDS[0] + 1)
            moved = [
                [cotangent_values(operator, each, given) for each in (inputs, *_moved(operator, inputs))]
                for given in (cotangents, others)
            ]
            with precision(*(array.dtype for array in inputs)), jax.default_device(jax.local_devices(backend="cpu")[0]):
                xla = [np.asarray(each) for each in _by_xla(operator, specs(inputs))(inputs, cotangents)[1]]
    except Exception as error:
        said = (str(error).strip() or "without a message").splitlines()[0]
        raise Undecided(
            f"the derivative of the reference raised {type(error).__name__} on drawn inputs ({name}): {said}. Declare "
            "the values that inputs may take: domains={...}."
        ) from error
    with np.errstate(all="ignore"):
        stacks = [[np.stack(values) for values in zip(*each, strict=True)] for each in moved]
        found = [_without_kinks(*each) for each in zip(truth.outputs, *stacks, strict=True)]
        whole = Truth(tuple(expected for expected, _ in found))
        wrong = wrong_elements(xla, whole)
    decided = tuple(known & ~off for (_, known), off in zip(found, wrong, strict=True))
    return cotangents, Judged(name, inputs, whole, decided)


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


@functools.lru_cache(maxsize=64)
def _by_xla(operator: Operator, inputs: Sequence[Any]) -> Callable[..., Any]:
    return jax.jit(pullback(operator.build(Backend.JNP, inputs), operator))


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


def _without_kinks(expected: Expected, values: Array, others: Array) -> tuple[Expected, Array]:
    """Returns what is expected if kinks are allowed for, and where it is finite.

    Args:
        expected: The true derivative.
        values: The derivative at the inputs and at moved ones, along the first axis.
        others: The same with other cotangents.
    """
    margin = np.broadcast_to(np.asarray(expected.margin), expected.value.shape)
    known = np.isfinite(expected.value) & np.isfinite(margin) & np.isfinite(values).all(axis=0)
    spread = np.ptp(values, axis=0)
    kink = known & ((spread > KINK * np.abs(values[0]) + margin) | (np.ptp(others, axis=0) > KINK * np.abs(others[0])))
    largest = float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
    value = np.where(kink, 0, expected.value)
    margin = np.where(kink, 2 * largest + margin, margin + np.where(known, spread, 0))
    return replace(expected, value=value, margin=margin), known
