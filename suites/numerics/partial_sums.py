"""Measures how large the partial sums of a sum are, for probabilistic error bounds of kernels that add in any order.

The worst case of a sum of n terms, ``gamma_{n-1} sum |x_i|``, needs all roundings to go one way, and all partial sums
to be as large as they can. Neither happens. A kernel that is wrong by a whole term may stay within that bound, so that
a second bound is needed.

The probabilistic bound
-----------------------
A kernel adds along some tree. Node j holds the partial sum ``S_j`` and rounds it: it adds the error ``S_j d_j`` with
``|d_j| <= u``. The final error is ``sum_j S_j d_j`` to first order. Model: the ``d_j`` have mean zero, whatever the
roundings before them were, and are spread evenly over at most ``[-u, u]``. Such a ``d_j`` is sub-Gaussian with the
variance ``u**2 / 3``, so that by the inequality of Azuma and Hoeffding::

    P(|error| > L u sqrt(sum_j S_j**2)) <= 2 exp(-3 L**2 / 2).

This is Theorem 2.4 of Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput.
41 (2019), whose model knows only ``|d_j| <= u`` (and has ``exp(-L**2 / 2)``), with the partial sums kept as they are.
``L`` is ``DEVIATIONS`` = 4: at most one false alarm in 1e10 elements.

Which tree a kernel has is unknown, but no term goes through more than k additions. If the order of the terms says
nothing about their values, then a node with m of n terms has ``E S_j**2 <= m Q + (m s / n)**2``, with the sum ``s`` and
the sum of squares ``Q``. Each term is below k nodes, so that ``E sum_j S_j**2 <= k (Q + s**2)``. In place of
``Q + s**2`` this module measures ``T**2`` on the terms themselves, so that the bound ``L u sqrt(k) T`` also holds where
their order does say something. ``T**2`` is the largest of

* ``mean_k P_k**2 + mean_k (s - P_k)**2 + Q``, with the running sums ``P_k``: kernels that add one term after the other,
  from either end, or in blocks,
* ``sum_j C_j**2``, with the sums ``C_j`` of every t-th term, for powers of two t: kernels with t lanes or threads.

The model fails where roundings repeat and add up. A float32 sum of 10**6 numbers 0.1, one after the other, is off by
1%. So is a sum of positive terms that are mostly too small to change it. Terms that take few values therefore have an
infinite ``T``: the worst case remains. For others, each term is rounded to a multiple of the last place of the largest
partial sum, which is what an accumulator does to it. If their sum moves by D more than chance explains, ``T`` grows by
``D / (L u sqrt(n))``, so that a chain of n roundings is granted D.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from suites.numerics.arrays import Array

DEVIATIONS = 4.0
"""``L`` of the bound."""

MOST = 0.25
"""The largest relative error that a sum may have. A kernel whose type is so narrow that it would lose more must add in
blocks or in a wider type, so that float16 and bfloat16 have finite bounds for sums of any length."""

LANES = tuple(2**power for power in range(1, 11))
"""The numbers of lanes or threads that may take turns at the terms."""

CHECKPOINTS = 4096
"""Running sums are taken at so many places at most."""

FEW_VALUES = 16
"""Terms take few values if a value occurs more often than this on average."""

LOOKED_AT = 4096
"""Terms of a sum that are looked at to count values."""

FEWEST = 64
"""Terms up to which roundings cannot add up to more than the bound."""

_ROUNDED_BITS = 40
"""Accumulators with more bits than this lose nothing that counts of the terms of any sample."""

_CHANCE = 1.2
"""A rounding moves a term by 0.29 places on average, and n of them the sum by the root of n times that: this is four
times as much."""

_FINER = 5
"""An accumulator is that many powers of two below its largest value for nearly all of its sum."""


def probable_factor(roundings: Any, unit: float) -> Any:
    """The factor of ``T`` in the bound: ``L u sqrt(k)`` for k ``roundings``, at most :data:`MOST`."""
    return np.minimum(DEVIATIONS * unit * np.sqrt(roundings), MOST)


def partial_sums(terms: Array, axis: int | tuple[int, ...] | None = None, bits: int | None = None) -> Array:
    """``T`` of the sums of ``terms`` along axes, or of all terms: how large partial sums are, see above.

    It is infinite where terms are not finite, and for few values. Complex terms are measured by their modulus.

    Args:
        terms: Floats or complex numbers.
        axis: The axes that are added up; None for all.
        bits: The bits of the significand of a kernel's partial sums. The default is what the terms have, or 24 at most,
            because terms may come in a wide type.
    """
    axes = tuple(range(terms.ndim)) if axis is None else tuple(np.atleast_1d(axis) % terms.ndim)
    others = [each for each in range(terms.ndim) if each not in axes]
    shape, count = [terms.shape[each] for each in others], math.prod(terms.shape[each] for each in axes)
    rows = np.transpose(terms, (*others, *axes)).reshape(math.prod(shape), count)
    return _of_rows(_in_double(rows), _bits_of(terms) if bits is None else bits).reshape(shape)


def partial_sums_at(terms: Array, targets: Array, count: int, bits: int | None = None) -> Array:
    """``T`` of ``count`` sums, where term i is added to the sum ``targets[i]``. Terms and targets are vectors.

    ``bits`` is as in :func:`partial_sums`.
    """
    bits = _bits_of(terms) if bits is None else bits
    terms = _in_double(np.asarray(terms)).reshape(-1)
    targets = np.asarray(targets).reshape(-1).astype(np.intp)
    if not terms.size or not count:
        return np.zeros(count)
    if (targets[1:] < targets[:-1]).any():
        order = np.argsort(targets, kind="stable")
        terms, targets = terms[order], targets[order]
    lengths = np.bincount(targets, minlength=count)
    starts = np.cumsum(lengths) - lengths
    places = np.arange(terms.size) - starts[targets]
    with np.errstate(all="ignore"):
        finite = np.isfinite(terms)
        safe = np.where(finite, terms, 0)
        running = np.cumsum(safe)
        running -= (running - safe)[starts[targets]]

        def added(weights: Array) -> Array:
            return _bincount(targets, weights, count)

        total, squares, means = added(safe), added(_squared(safe)), np.maximum(lengths, 1)
        largest = (added(_squared(running)) + added(_squared(total[targets] - running))) / means
        # Where others' terms are so large that a sum's own are lost in the running sum of all, its total is not.
        largest = np.maximum(largest, _squared(total) / 2) + squares
        for lanes in LANES:
            if lanes >= int(lengths.max(initial=0)):
                break
            classes = targets * lanes + places % lanes
            parts = _squared(_bincount(classes, safe, count * lanes)).reshape(count, lanes).sum(axis=1)
            largest = np.maximum(largest, parts)
        found = np.sqrt(largest)
        found = np.where(np.bincount(targets, ~finite, count) > 0, np.inf, found)
        found = found + _drift_at(safe, np.abs(running).max(), targets, lengths, bits)
    return np.full(count, np.inf) if few_values(terms) else found


def running_sums(terms: Array, axis: int = 0, reverse: bool = False, bits: int | None = None) -> Array:
    """``T`` of each running sum of ``terms`` along an axis, in the shape of ``terms``.

    ``bits`` is as in :func:`partial_sums`.
    """
    bits = _bits_of(terms) if bits is None else bits
    rows = np.moveaxis(_in_double(terms), axis, -1)
    rows = rows[..., ::-1] if reverse else rows
    with np.errstate(all="ignore"):
        safe = np.where(np.isfinite(rows), rows, 0)
        sums, squares = np.cumsum(safe, axis=-1), np.cumsum(_squared(safe), axis=-1)
        counts = np.arange(1, rows.shape[-1] + 1)
        means, mean_squares = np.cumsum(sums, axis=-1) / counts, np.cumsum(_squared(sums), axis=-1) / counts
        back = _squared(sums) - 2 * np.real(sums * np.conj(means)) + mean_squares
        largest = mean_squares + np.maximum(back, 0) + squares
        for lanes in LANES:
            if lanes >= rows.shape[-1]:
                break
            largest = np.maximum(largest, _running_classes(safe, lanes))
        found = np.sqrt(largest)
    finite = np.logical_and.accumulate(np.isfinite(rows), axis=-1)
    found = found + drift(safe, np.abs(sums).max(axis=-1, initial=0), bits, running=True)
    found = np.where(finite & ~few_values(rows)[..., None], found, np.inf)
    return np.asarray(np.moveaxis(found[..., ::-1] if reverse else found, -1, axis))


def few_values(rows: Array) -> Any:
    """Whether the terms of each row, a vector or the last axis of an array, take few values. Zeros do not count."""
    length = rows.shape[-1]
    seen = rows[..., :: -(-length // LOOKED_AT)] if length > LOOKED_AT else rows
    ordered = np.sort(np.abs(seen), axis=-1)
    nonzero = ordered != 0
    distinct = (nonzero[..., :1]).sum(axis=-1) + ((ordered[..., 1:] != ordered[..., :-1]) & nonzero[..., 1:]).sum(
        axis=-1
    )
    # Of very many terms only some are looked at. Those must differ then.
    often = FEW_VALUES if length <= LOOKED_AT else 2
    terms = nonzero.sum(axis=-1)
    return (distinct * often < terms) & (terms > 1)


def drift(rows: Array, largest: Array, bits: int, *, running: bool = False) -> Array:
    """What ``T`` must grow by, because the terms of each row grow or shrink on average when an accumulator rounds them.

    Args:
        rows: The terms, along the last axis.
        largest: The largest magnitude of a partial sum of each row.
        bits: The bits of the accumulator's significand.
        running: Whether the result is for each running sum, in the shape of ``rows``.
    """
    length = rows.shape[-1]
    found = np.zeros(rows.shape if running else rows.shape[:-1])
    if length < FEWEST or bits > _ROUNDED_BITS:
        return found
    if rows.dtype.kind == "c":
        return drift(rows.real, largest, bits, running=running) + drift(rows.imag, largest, bits, running=running)
    counts = np.arange(1, length + 1) if running else length
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(largest)
        place = np.ldexp(1.0, exponent - bits)[..., None]
        for _ in range(_FINER):
            moved = np.rint(rows / place) * place - rows
            total = np.abs(np.cumsum(moved, axis=-1) if running else moved.sum(axis=-1))
            width = place if running else place[..., 0]
            found = np.fmax(found, total - _CHANCE * np.sqrt(counts) * width)
            place = place / 2
    return np.asarray(found / (DEVIATIONS * 2.0**-bits * np.sqrt(counts)))


def _bits_of(terms: Array) -> int:
    return {"float16": 11, "bfloat16": 8}.get(terms.dtype.name, 24)


def _of_rows(rows: Array, bits: int) -> Array:
    """``T`` of the sum of each row of a matrix."""
    count, length = rows.shape
    if not length or not count:
        return np.zeros(count)
    with np.errstate(all="ignore"):
        squares = _squared(rows).sum(axis=1)
        step = -(-length // CHECKPOINTS)
        parts = np.add.reduceat(rows, np.arange(0, length, step), axis=1) if step > 1 else rows
        sums = np.cumsum(parts, axis=1)
        forth = _squared(sums).mean(axis=1)
        back = _squared(sums[:, -1:] - sums).mean(axis=1)
        largest = forth + back + squares
        for lanes in LANES:
            if lanes >= length:
                break
            whole = length // lanes * lanes
            classes = rows[:, :whole].reshape(count, -1, lanes).sum(axis=1)
            largest = np.maximum(largest, _squared(classes).sum(axis=1))
        found = np.sqrt(largest) + drift(rows, np.abs(sums).max(axis=1), bits)
        found = np.where(few_values(rows), np.inf, found)
    return np.asarray(np.where(np.isnan(found), np.inf, found))


def _drift_at(terms: Array, largest: Any, targets: Array, lengths: Array, bits: int) -> Any:
    """:func:`drift` of sums whose terms have targets."""
    if int(lengths.max(initial=0)) < FEWEST or bits > _ROUNDED_BITS:
        return 0.0
    if terms.dtype.kind == "c":
        return sum(_drift_at(part, largest, targets, lengths, bits) for part in (terms.real, terms.imag))
    found, place = np.zeros(lengths.size), np.ldexp(1.0, int(np.frexp(largest)[1]) - bits)
    for _ in range(_FINER):
        moved = np.bincount(targets, np.rint(terms / place) * place - terms, lengths.size)
        found = np.fmax(found, np.abs(moved) - _CHANCE * np.sqrt(lengths) * place)
        place /= 2
    return found / (DEVIATIONS * 2.0**-bits * np.sqrt(np.maximum(lengths, 1)))


def _running_classes(rows: Array, lanes: int) -> Array:
    """``sum_j C_j**2`` of each running sum: a term x that joins a class with the sum C adds ``2 C x + x**2``."""
    length = rows.shape[-1]
    padded = np.concatenate([rows, np.zeros((*rows.shape[:-1], -length % lanes), rows.dtype)], axis=-1)
    classes = padded.reshape(*rows.shape[:-1], -1, lanes)
    before = np.cumsum(classes, axis=-2) - classes
    growth = 2 * np.real(before * np.conj(classes)) + _squared(classes)
    return np.asarray(np.cumsum(growth.reshape(*rows.shape[:-1], -1), axis=-1)[..., :length])


def _bincount(classes: Array, terms: Array, count: int) -> Array:
    if terms.dtype.kind != "c":
        return np.bincount(classes, terms, count)
    return np.asarray(np.bincount(classes, terms.real, count) + 1j * np.bincount(classes, terms.imag, count))


def _in_double(terms: Array) -> Array:
    return terms.astype(np.complex128 if terms.dtype.kind == "c" else np.float64, copy=False)


def _squared(terms: Array) -> Array:
    return np.square(terms.real) + np.square(terms.imag) if terms.dtype.kind == "c" else np.square(terms)
