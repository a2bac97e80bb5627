"""Moves errors with their elements through gathers, sorts and scatters, for :mod:`suites.numerics.derived.reference`.

Each element of such a result is an element of one of the operands. JAX applies most of these operations to an array of
positions, whose result tells which element goes where. So JAX need not support the wide type of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.derived.estimate import Estimate, Underivable, by_jax, in_any_order, in_double, joined, selected
from suites.numerics.derived.rules import Operands, Params, Rule
from suites.numerics.derived.sums import summed


def _moved(function: Callable[[Array, Params], Any]) -> Rule:
    """Returns the rule of a move of all elements of one operand, which NumPy makes without a copy."""

    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        return [operands[0].moved(lambda array: function(array, params))]

    return apply


def _concatenate(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    return [joined(operands, lambda arrays: np.concatenate(arrays, params["dimension"]))]


def _pad(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    """The rule of a pad: it spreads the elements, and a negative width removes some at an end."""
    config, shape = params["padding_config"], outs[0].shape
    starts, steps = [low for low, _, _ in config], [inner + 1 for _, _, inner in config]

    def padded(arrays: list[Array]) -> Array:
        result = np.full(shape, arrays[1], arrays[0].dtype)
        # The first and the last elements that lie within the result.
        first = [-(min(start, 0) // step) for start, step in zip(starts, steps, strict=True)]
        ends = [max(-((start - extent) // step), 0) for start, step, extent in zip(starts, steps, shape, strict=True)]
        source = arrays[0][tuple(map(slice, first, ends))]
        at = [start + step * skipped for start, step, skipped in zip(starts, steps, first, strict=True)]
        axes = zip(at, steps, source.shape, strict=True)
        result[tuple(slice(start, start + step * count, step) for start, step, count in axes)] = source
        return result

    return [joined(operands, padded)]


def _slice(array: Array, params: Params) -> Array:
    starts, ends = params["start_indices"], params["limit_indices"]
    strides = params["strides"] or (1,) * array.ndim
    return np.asarray(array[tuple(slice(*bounds) for bounds in zip(starts, ends, strides, strict=True))])


def _broadcast(array: Array, params: Params) -> Array:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], array.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(array.reshape(shape), params["shape"])


def _take(sources: Operands, positions: Array) -> Estimate:
    """Returns the elements at these positions of the concatenated sources."""
    return joined(sources, lambda arrays: np.concatenate([array.reshape(-1) for array in arrays])[positions])


def _positions(sources: Operands) -> list[Array]:
    """Returns an array of positions for each source. The positions continue from one source to the next."""
    ends = np.cumsum([source.value.size for source in sources])
    kind = np.int32 if ends[-1] < 2**31 else np.int64
    return [
        np.arange(end - source.value.size, end, dtype=kind).reshape(source.value.shape)
        for end, source in zip(ends, sources, strict=True)
    ]


def _exact(estimate: Estimate, what: str) -> Array:
    if estimate.error is not None and estimate.error.any():
        raise Underivable(f"{what} depends on a rounded number")
    return estimate.value


def _in_double(estimate: Estimate, exact: Array) -> Any:
    """Returns an exact value in a dtype of JAX."""
    return exact.astype(np.float64) if estimate.is_float else exact


def by_positions(primitive: Any, operands: Operands, params: Params) -> Operands:
    """Returns the results of a primitive of :data:`SOURCES`."""
    count = SOURCES[primitive.name]
    sources, others = operands[:count], operands[count:]
    indices = [_exact(other, f"an index of `{primitive.name}`") for other in others]
    return [_take(sources, result) for result in by_jax(primitive, [*_positions(sources), *indices], params)]


def _gather(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    source, indices = operands[0], _exact(operands[1], "an index of `gather`")
    (positions,) = by_jax(jax.lax.gather_p, [*_positions([source]), indices], params | {"fill_value": -1})
    fill = params["fill_value"]
    if fill is None:
        fill = np.nan if source.is_float else np.iinfo(source.dtype).min if source.dtype.kind == "i" else True
    filler = Estimate(np.full(1, fill, source.value.dtype), None, source.dtype)
    return [_take([source, filler], positions)]  # position -1 is the last


def _sort(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    axis, keys = params["dimension"], operands[: params["num_keys"]]
    if len(operands) == 1 and operands[0].error is not None:
        # The error of any sorted element is at most the largest error of all.
        (x,) = operands
        error = x.errors.max(axis=axis, keepdims=True, initial=0)
        return [selected(np.sort(x.value, axis=axis), np.broadcast_to(error, x.value.shape), x.dtype)]
    exact = [_in_double(key, _exact(key, "the order of `sort`")) for key in keys]
    arrays: list[Any] = [*exact, *_positions(operands[:1])]
    with in_double():
        ordered: Any = jax.lax.sort(arrays, dimension=axis, is_stable=True, num_keys=len(keys))
    return [_take([operand], np.asarray(ordered[-1])) for operand in operands]


def _top_k(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    value = _in_double(operands[0], _exact(operands[0], "the order of `top_k`"))
    indices, axis = by_jax(jax.lax.top_k_p, [value], params)[1], params["axis"]
    return [
        operands[0].moved(lambda array: np.take_along_axis(array, indices.astype(np.intp), axis)),
        Estimate(indices.astype(outs[1].dtype), None, outs[1].dtype),
    ]


def _targets(operands: Operands, params: Params) -> tuple[Array, Array]:
    """Returns the position in the operand of each element of the updates, and whether it is inside the operand.

    The transpose of a scatter that adds returns for each update the element at its target, or zero without a target.
    """
    (positions,), updates = _positions(operands[:1]), np.zeros(operands[2].value.shape)
    indices = _exact(operands[1], "an index of a scatter")

    def added(updates: jax.Array) -> jax.Array:
        start = jax.numpy.zeros(positions.shape)
        return jax.lax.scatter_add(start, indices, updates, params["dimension_numbers"], mode=params["mode"])

    with in_double():
        (transposed,) = jax.linear_transpose(added, updates)(positions + 1.0)
    targets = np.asarray(transposed).reshape(-1).astype(np.int64) - 1
    return targets, targets >= 0


def _scatter(operands: Operands, params: Params, outs: list[Any]) -> Operands:
    """The rule of a scatter whose updates replace elements."""
    source, _, updates = operands
    targets, inside = _targets(operands, params)
    if params.get("update_jaxpr") is not None:
        raise Underivable("no bound is derived through `scatter` with a function")
    positions = _positions([source])[0].reshape(-1).copy()
    if np.unique(targets[inside]).size != targets[inside].size:
        raise Underivable("`scatter` writes an element twice, in no particular order")
    positions[targets[inside]] = source.value.size + np.flatnonzero(inside)
    return [_take([source, updates], positions.reshape(source.value.shape))]


def _scatter_add(sign: int) -> Rule:
    def apply(operands: Operands, params: Params, outs: list[Any]) -> Operands:
        source, _, updates = operands
        targets, inside = _targets(operands, params)
        targets = targets[inside]

        def added(start: Array, terms: Array) -> Array:
            total = np.array(start).reshape(-1)
            np.add.at(total, targets, terms.reshape(-1)[inside])
            return total.reshape(source.value.shape)

        value = added(source.value, sign * updates.value)
        sizes = added(source.sizes, updates.sizes)
        without = source.error is None and updates.error is None
        errors = np.zeros(()) if without else added(source.owns, updates.owns)
        roundings = np.bincount(targets, minlength=source.value.size).reshape(source.value.shape)
        # The first addition to a zero is a copy.
        roundings = np.maximum(roundings - ((source.value == 0) & (source.owns == 0)), 0)
        quanta = min(float(np.min(each.terms_quanta, initial=np.inf)) for each in (source, updates))
        exact = bool(np.all(source.is_exact) and np.all(updates.is_exact))
        estimate = summed(value, sizes, errors, roundings, outs[0].dtype)
        return [in_any_order(estimate, [source, updates], sizes, quanta, exact=exact)]

    return apply


RULES: dict[str, Rule] = {
    "reshape": _moved(lambda array, params: array.reshape(params["new_sizes"])),
    "broadcast_in_dim": _moved(_broadcast),
    "transpose": _moved(lambda array, params: array.transpose(params["permutation"])),
    "squeeze": _moved(lambda array, params: array.squeeze(params["dimensions"])),
    "slice": _moved(_slice),
    "rev": _moved(lambda array, params: np.flip(array, params["dimensions"])),
    **dict.fromkeys(
        ("copy", "copy_p", "stop_gradient", "optimization_barrier", "sharding_constraint", "device_put"),
        lambda operands, params, outs: list(operands),
    ),
    "concatenate": _concatenate,
    "pad": _pad,
    "gather": _gather,
    "sort": _sort,
    "top_k": _top_k,
    "scatter": _scatter,
    "scatter-add": _scatter_add(1),
    "scatter-sub": _scatter_add(-1),
}
"""The rule of each primitive, by its name."""

FOR_INTEGERS = {
    *("reshape", "broadcast_in_dim", "transpose", "squeeze", "slice", "rev", "copy", "stop_gradient"),
    *("concatenate", "pad"),
}
"""Primitives whose rules compute exact integers like XLA, without compiling anything."""

ALL = 1 << 30
SOURCES: dict[str, int] = {
    **dict.fromkeys(("split", "stack", "tile", "unstack"), ALL),
    "dynamic_slice": 1,
    "dynamic_update_slice": 2,
}
"""How many of the first operands of a primitive are moved, by its name; the others are indices."""
