"""Shows from the source of a Warp kernel which outputs may have the memory of which inputs. Needs no Warp."""

from __future__ import annotations

from bridge.languages.warp.launch_spec import Spec
from bridge.source.affine import Affine, Counter
from bridge.source.element_wise import shareable_parameters
from bridge.source.language_rules import LanguageRules, Source
from bridge.source.meanings import Meanings

_LARGEST_INDEX = 2**31 - 1
"""Warp computes indices with 32 bits."""


def in_place_pairs_of(meanings: Meanings, spec: Spec, input_count: int) -> frozenset[tuple[int, int]]:
    """Pairs of input and output of a call that may share memory where they have one type.

    Args:
        meanings: What the names in the function of the kernel mean in its code.
        spec: The launch.
        input_count: Inputs of the call. Outputs come after them.
    """
    if spec.backward:
        return frozenset()
    counters = tuple(map(Counter, spec.dims))
    numbers = tuple(map(Affine.of, counters))
    rules = LanguageRules(
        counters,
        calls={"warp.tid": lambda: numbers[0] if len(numbers) == 1 else numbers},
        meanings=lambda function: meanings if function is meanings.function else None,
        largest_index=_LARGEST_INDEX,
        reads_late=True,
    )
    ranks = [None if argument.shape is None else len(argument.shape) for argument in spec.arguments]
    pairs = shareable_parameters(Source(meanings.function), ranks, rules)
    buffers = [(spec.arguments[one].buffer, spec.arguments[other].buffer) for one, other in pairs]
    return frozenset((one, other - input_count) for one, other in buffers if one < input_count <= other)
