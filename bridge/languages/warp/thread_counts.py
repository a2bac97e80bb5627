"""Shows from the source of a Warp kernel which outputs may have the memory of which inputs. Needs no Warp."""

from __future__ import annotations

from typing import Any

from bridge.languages.warp.launch_spec import Spec
from bridge.source.affine import Affine, Counter
from bridge.source.element_wise import ThreadIndices, shareable_parameters


def in_place_pairs_of(function: Any, spec: Spec, input_count: int) -> frozenset[tuple[int, int]]:
    """Pairs of input and output of a call that may share memory where they have one type.

    Args:
        function: The Python function of the kernel.
        spec: The launch.
        input_count: Inputs of the call. Outputs come after them.
    """
    if spec.backward:
        return frozenset()
    counters = tuple(map(Counter, spec.dims))
    numbers = tuple(map(Affine.of, counters))
    threads = ThreadIndices(counters, calls={"warp.tid": lambda: numbers[0] if len(numbers) == 1 else numbers})
    ranks = [None if argument.shape is None else len(argument.shape) for argument in spec.arguments]
    pairs = shareable_parameters(function, ranks, threads)
    buffers = [(spec.arguments[one].buffer, spec.arguments[other].buffer) for one, other in pairs]
    return frozenset((one, other - input_count) for one, other in buffers if one < input_count <= other)
