"""Finds by trials of the reference on which part of each input an element of a result depends."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs
from suites.numerics.precision import precision

Index = tuple[int | slice, ...]

TRIALS = 3
"""How often the rest of an input is shuffled. If the element of the result stays the same, it does not depend on it."""


def parts(operator: Operator, inputs: Inputs, output: int, place: tuple[int, ...]) -> list[Index | None]:
    """Returns for each input the index of the element, row or column on which an element of a result depends.

    The index is None if the element depends on more of the input, or on another part of it.

    Args:
        operator: The operator.
        inputs: The inputs.
        output: The number of the result.
        place: The index of the element.
    """
    random = np.random.default_rng(0)

    def suffices(number: int, index: Index) -> bool:
        for _ in range(TRIALS):
            changed = random.permuted(inputs[number].reshape(-1)).reshape(inputs[number].shape)
            changed[index] = inputs[number][index]
            element = results(*inputs[:number], changed, *inputs[number + 1 :])[output][place]
            if element.tobytes() != value.tobytes():
                return False
        return True

    try:
        results = _results(operator, inputs)
        value = results(*inputs)[output][place]
        indices = [list(_candidates(array.shape, place)) for array in inputs]
        return [next((i for i in own if suffices(number, i)), None) for number, own in enumerate(indices)]
    except Exception:  # from the reference
        return [None] * len(inputs)


def _candidates(shape: tuple[int, ...], element: tuple[int, ...]) -> Iterator[Index]:
    """Yields indices near to the place of the result: the same one, broadcast ones, and rows along each axis."""
    rank = len(shape)
    indices: list[Index] = [element[len(element) - rank :], element[:rank]]
    if rank == len(element) + 1:
        indices += [(*element[:axis], slice(None), *element[axis:]) for axis in range(rank)]
    elif rank == len(element) > 1:
        indices += [(*element[:axis], slice(None), *element[axis + 1 :]) for axis in range(rank)]
    for index in indices:
        pairs = zip(index, shape, strict=False)
        if len(index) == rank and all(isinstance(i, slice) or i < extent for i, extent in pairs):
            yield index


def _results(operator: Operator, inputs: Inputs) -> Callable[..., list[Array]]:
    """The reference on the CPU, in the precision of the inputs."""

    def results(*arrays: Array) -> list[Array]:
        cpu = jax.local_devices(backend="cpu")[0]
        with precision(*(array.dtype for array in inputs)), jax.default_device(cpu):
            return [np.asarray(leaf) for leaf in _compiled(operator)(*arrays)]

    return results


@functools.lru_cache(maxsize=64)
def _compiled(operator: Operator) -> Any:
    return jax.jit(lambda *arrays: jax.tree.leaves(operator.reference(*arrays)))
