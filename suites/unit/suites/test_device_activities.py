"""The work of a device is told apart by calls, whatever the calls are made of."""

import random

import pytest

from suites.timing.device_clock import Activity, CallTimes, SplitError, call_times, split


def kernel(name, start, end, launch):
    return Activity("kernel", name, start, end, launch)


def batch(*calls):
    """Activities of calls, each a list of (kind, name, start, end) with a launch of its own, out of order."""
    launches = iter(range(100, 10_000))
    found = [Activity(*each, next(launches)) for call in calls for each in call]
    random.Random(0).shuffle(found)
    return found


def call(start):
    return [
        ("set", "set, 4 bytes", start, start + 2),
        ("kernel", "first", start + 3, start + 10),
        ("copy", "copy, 64 bytes", start + 11, start + 14),
        ("kernel", "second", start + 20, start + 30),
    ]


def test_kernels_copies_sets_and_gaps_of_a_call_count():
    found = [call_times(each) for each in split(batch(call(10), call(1000), call(2000)), 3)]
    assert found == [CallTimes(30.0, 17.0)] * 3


def test_a_call_on_two_streams_is_as_long_as_both_together():
    two_streams = [("kernel", "left", 10, 50), ("kernel", "right", 20, 60)]
    later = [("kernel", "left", 130, 170), ("kernel", "right", 120, 160)]  # the second stream is first, this time
    assert [call_times(each) for each in split(batch(two_streams, later), 2)] == [CallTimes(50.0, 80.0)] * 2


def test_all_kernels_of_a_cuda_graph_belong_to_its_launch():
    graph = [kernel("a", 10, 20, 7), kernel("b", 22, 30, 7), kernel("a", 110, 120, 9), kernel("b", 122, 130, 9)]
    assert [call_times(each) for each in split(graph, 2)] == [CallTimes(20.0, 18.0)] * 2


@pytest.mark.parametrize(
    ("activities", "calls", "reason"),
    [
        ([], 2, "0 launches in 2 equal calls"),
        (batch(call(10), call(1000))[1:], 2, "7 launches in 2 equal calls"),
        ([kernel("a", 1, 2, 1), kernel("b", 3, 4, 2)], 2, "call 1 of 2 ran .*'b'.* the first one .*'a'"),
        ([kernel("a", time, time, launch) for time, launch in ((1, 1), (2, 2), (3, 2), (4, 2))], 2, "call 1 of 2 ran"),
        ([kernel("a", 1, 5, 1), kernel("a", 3, 8, 2)], 2, "began before the one before it had ended"),
        ([kernel("a", 0, 0, 1), kernel("a", 3, 8, 2)], 2, "has no time of a: 0 to 0 ns"),
        ([kernel("a", 5, 3, 1)], 1, "has no time of a: 5 to 3 ns"),
    ],
    ids=["nothing", "one_lost", "another_kernel", "more_in_one_graph", "overlap", "no_time", "backwards"],
)
def test_calls_that_cannot_be_told_apart_are_refused(activities, calls, reason):
    with pytest.raises(SplitError, match=reason):
        split(activities, calls)
