"""Computes true derivatives of drawn inputs, and tells which of their elements are decided.

A derivative jumps where the reference has a kink: at zero for a rectifier, between equal elements for a maximum. There
any of the one-sided derivatives is right, and what lies between, so that nothing is decided. A kink shows if the inputs
are moved by a few roundings and the derivative changes much.
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
from suites.checks.drawn.drawn_inputs import battery
from suites.checks.judging.gradients import cotangent_values, pullback, random_cotangents, true_cotangents
from suites.declare.input_names import input_names
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs, specs
from suites.numerics.error_model import Truth, finfo
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
    cotangents, others = (random_cotangents(operator, inputs, seed) for seed in (SEEDS[0], SEEDS[0] + 1))
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            truth = true_cotangents(operator, inputs, cotangents)
            # By chance, the derivatives on both sides of a kink may be nearly equal for one set of cotangents.
            spreads, more = (_spreads(operator, inputs, given) for given in (cotangents, others))
            with precision(*(array.dtype for array in inputs)), jax.default_device(jax.local_devices(backend="cpu")[0]):
                xla = [np.asarray(each) for each in _by_xla(operator, specs(inputs))(inputs, cotangents)[1]]
    except Exception as error:
        said = (str(error).strip() or "without a message").splitlines()[0]
        raise Undecided(
            f"the derivative of the reference raised {type(error).__name__} on drawn inputs ({name}): {said}. Declare "
            "the values that inputs may take: domains={...}."
        ) from error
    outputs, decided = [], []
    with np.errstate(all="ignore"):
        for expected, (size, spread), (other_size, other) in zip(truth.outputs, spreads, more, strict=True):
            bound = np.asarray(expected.margin)
            smooth = (spread <= KINK * size + bound) & (other <= KINK * other_size + bound)
            decided.append(np.isfinite(expected.value) & np.isfinite(bound + spread) & smooth)
            outputs.append(replace(expected, margin=bound + spread))
        wrong = wrong_elements(xla, Truth(tuple(outputs)))
    known = tuple(each & ~off for each, off in zip(decided, wrong, strict=True))
    return cotangents, Judged(name, inputs, Truth(tuple(outputs)), known)


def _spreads(operator: Operator, inputs: Inputs, cotangents: list[Array]) -> list[tuple[Array, Array]]:
    """The size of each derivative, and how far it changes where the inputs are moved."""
    several = [cotangent_values(operator, each, cotangents) for each in (inputs, *_moved(operator, inputs))]
    return [(np.abs(values[0]), np.ptp(np.stack(values), axis=0)) for values in zip(*several, strict=True)]


@functools.lru_cache(maxsize=8)
def gradient_battery(operator: Operator, dtype: str, size: int) -> tuple[tuple[list[Array], Judged], ...]:
    """Returns cotangents and true derivatives of the battery at one nominal size, made once for all backends.

    Raises:
        Undecided: The derivative of the reference raises on drawn inputs.
    """
    sample = operator.sample(dtype, size, SEEDS[0])
    names = input_names(operator.reference, len(sample))
    drawn = battery(operator, sample, SEEDS, names, smooth=True)
    return tuple(judged_gradient(operator, each.name, each.inputs) for each in drawn)


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
