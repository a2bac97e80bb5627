"""Gives Warp kernels of neurons their threshold: a potential that reaches it spikes, and is reset."""

import functools
from typing import Any, NamedTuple

from suites.backends.warp_blocks import scalar, wp
from suites.backends.warp_vectors import vectors_of

__all__ = ["threshold_of"]


class Threshold(NamedTuple):
    """The functions of a threshold for one dtype.

    Attributes:
        reached: Takes a potential and the threshold. Returns 1 for a spike, else 0.
        after_reset: Takes a potential, the threshold and the potential at rest. Returns the potential afterwards.
        store: Takes the arrays of spikes and of potentials, an index, whether vectors may be stored there, four
            potentials, the threshold and the potential at rest. Stores both, as ``store_within`` of :func:`vectors_of`.
    """

    reached: Any
    after_reset: Any
    store: Any


@functools.cache
def threshold_of(dtype: str) -> Threshold:
    """Makes the functions for a dtype."""
    element = scalar(dtype)
    potentials, counts = vectors_of(dtype), vectors_of("int32")
    four, four_spikes = potentials.kind, counts.kind
    store_potentials, store_spikes = potentials.store_within, counts.store_within

    @wp.func
    def reached(v: element, threshold: element):
        return wp.where(v >= threshold, 1, 0)

    @wp.func
    def after_reset(v: element, threshold: element, rest: element):
        return wp.where(v >= threshold, rest, v)

    @wp.func
    def store(
        spikes: wp.array(dtype=wp.int32),
        V_out: wp.array(dtype=element),
        i: int,
        in_vectors: bool,
        v: four,
        threshold: element,
        rest: element,
    ):
        fires = four_spikes(
            reached(v[0], threshold), reached(v[1], threshold), reached(v[2], threshold), reached(v[3], threshold)
        )
        store_spikes(spikes, i, in_vectors, fires)
        after = four(
            after_reset(v[0], threshold, rest),
            after_reset(v[1], threshold, rest),
            after_reset(v[2], threshold, rest),
            after_reset(v[3], threshold, rest),
        )
        store_potentials(V_out, i, in_vectors, after)

    return Threshold(reached, after_reset, store)
