"""Splits the work of a device into the calls that caused it, and times each call."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reports import RecordError

KERNEL = "kernel"


class SplitError(RecordError):
    """The work of a batch cannot be told apart by calls, so there is no time to record."""


class Activity(NamedTuple):
    """One thing that a device did.

    Attributes:
        kind: ``kernel``, ``copy`` or ``set``.
        name: Name of the kernel; direction and bytes of a copy or set.
        start_ns: When it began, by the clock of the profiler.
        end_ns: When it ended.
        launch: Number of the launch that caused it, greater than the number of every launch before. A CUDA graph is one
            launch, whose kernels, copies and sets are activities of their own.
    """

    kind: str
    name: str
    start_ns: int
    end_ns: int
    launch: int


class CallTimes(NamedTuple):
    """How long a device works on one call.

    Attributes:
        span_ns: From the start of its first to the end of its last activity: kernels, copies, sets and gaps.
        kernels_ns: Sum of its kernels; None where the method cannot tell, or where no kernel ran.
    """

    span_ns: float
    kernels_ns: float | None


def split(activities: Iterable[Activity], calls: int) -> list[list[Activity]]:
    """Returns the activities of each call, in the order of the calls.

    Equal calls make the same number of launches, which cause the same activities. They are in the order of
    the launches: a call on two streams may start its kernels in another order each time.

    Args:
        activities: Everything that the device did for a batch of equal calls.
        calls: How many calls the batch has.

    Raises:
        SplitError: Nothing ran, a time is missing, the calls did not do the same, or two calls overlap.
    """
    ordered = sorted(activities, key=lambda activity: (activity.launch, activity.start_ns))
    launches = [list(group) for _, group in itertools.groupby(ordered, key=lambda activity: activity.launch)]
    if not launches or len(launches) % calls:
        raise SplitError(f"the profiler saw {len(launches)} launches in {calls} equal calls, expected as many in each")
    timeless = next((one for one in ordered if not 0 < one.start_ns <= one.end_ns), None)
    if timeless is not None:
        raise SplitError(f"the profiler has no time of {timeless.name}: {timeless.start_ns} to {timeless.end_ns} ns")
    each = len(launches) // calls
    found = [list(itertools.chain(*launches[first : first + each])) for first in range(0, len(launches), each)]
    same = _signature(found[0])
    for index, call in enumerate(found):
        if _signature(call) != same:
            raise SplitError(f"call {index} of {calls} ran {_signature(call)}, the first one {same}")
    for before, after in itertools.pairwise(found):
        if max(one.end_ns for one in before) > min(one.start_ns for one in after):
            raise SplitError("a call began before the one before it had ended")
    return found


def call_times(activities: Sequence[Activity]) -> CallTimes:
    """Returns the times of one call.

    Args:
        activities: All that the device did for it.

    Raises:
        SplitError: It did nothing, or the profiler has no time.
    """
    if not activities:
        raise SplitError("the profiler saw no work of the device during a call")
    start, end = min(one.start_ns for one in activities), max(one.end_ns for one in activities)
    if not 0 < start < end:
        raise SplitError(f"the profiler has no time of {activities[0].name}: {start} to {end} ns")
    kernels = sum(one.end_ns - one.start_ns for one in activities if one.kind == KERNEL)
    return CallTimes(float(end - start), float(kernels) if kernels else None)


def _signature(activities: Sequence[Activity]) -> list[tuple[str, str]]:
    return sorted((one.kind, one.name) for one in activities)
