"""Rounds of a cell on a device that is an imitation: hot and cold, throttled and not."""

import weakref

import jax
import numpy as np
import pytest

from reports import RecordError
from suites.timing import cuda_measurement as module
from suites.timing.cuda_measurement import HOT, CudaMeasurement, InputRotation, InputSets, ThrottledError
from suites.timing.device_clock import CallTimes
from suites.timing.gpu import DeviceState

CPU = jax.devices("cpu")[0]
HEAT = 0x40


class FakeClock:
    """Says that each call takes 100 ns more than the one before, of which the kernels take half."""

    method, note = "cupti", None

    def __init__(self):
        self.called, self.swept = 0, []

    def times(self, call, count, *, sweep=False, during=lambda: None):
        self.swept.append(sweep)
        found = []
        for _ in range(count):
            jax.block_until_ready(call())
            self.called += 1
            found.append(CallTimes(100.0 * self.called, 50.0 * self.called))
        during()
        return found


class FakeManagement:
    """Reads states from a list, and the last one for ever."""

    top_mhz = 1980.0
    is_awake = True

    def __init__(self, *states):
        self.states = [DeviceState(1980.0, 0)] if not states else [*states]

    def state(self):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_COOLING_S", 0.0)
    monkeypatch.setattr(module, "_WAKING_S", 0.0)
    monkeypatch.setattr(module.gpu, "l2_bytes", lambda: 1 << 20)


def measurement(cache="hot", size=1 << 20, clock=None, management=None, dtype=np.float32, calls=10):
    arguments = [jax.device_put(np.arange(64, dtype=dtype))]
    made = CudaMeasurement(
        jax.jit(lambda x: [2 * x]),
        arguments,
        CPU,
        cache,
        size,
        clock=clock or FakeClock(),
        management=management or FakeManagement(),
    )
    made._calls = calls
    return made


def test_samples_of_all_rounds_are_kept_in_order():
    measured = measurement(calls=3)
    measured.round()
    measured.round()
    times = measured.times()
    assert (measured.method, measured.cache) == ("cupti", "hot")
    assert times.samples_ns == (100.0, 200.0, 300.0, 400.0, 500.0, 600.0)
    assert times.kernels_ns == (50.0, 100.0, 150.0, 200.0, 250.0, 300.0)
    assert (times.loops, times.discarded, times.clock_mhz) == (1, 0, 1980.0)


@pytest.mark.parametrize(("cache", "size", "swept"), [("hot", 12, False), ("cold", 12, True), ("cold", 1 << 20, False)])
def test_small_cold_calls_are_swept(cache, size, swept):
    clock = FakeClock()
    measured = measurement(cache, size, clock)
    measured.round()
    assert clock.swept == [swept]
    assert measured.cache == cache


def test_throttled_samples_are_thrown_away_and_counted_and_the_round_is_tried_again():
    cool, hot = DeviceState(1980.0, 0), DeviceState(1980.0, HEAT)
    # Each try reads the state to see whether the device is awake, then before, during and after the calls.
    measured = measurement(management=FakeManagement(cool, cool, hot, cool, cool, cool), calls=4)
    measured.round()
    measured.round()
    times = measured.times()
    assert times.discarded == 4
    assert times.samples_ns == tuple(100.0 * index for index in range(5, 13))


def test_a_device_that_stays_throttled_gives_no_times_but_a_reason():
    measured = measurement(management=FakeManagement(DeviceState(1980.0, HEAT)), calls=5)
    with pytest.raises(RecordError, match="no samples"):
        measured.times()
    measured.round()
    with pytest.raises(ThrottledError, match="unstable: the device was throttled during 15 of 15 samples"):
        measured.times()


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_a_double_stays_a_double(cache):
    results = []
    clock = FakeClock()
    times = clock.times
    clock.times = lambda call, count, **options: times(lambda: results.append(call()) or results[-1], count, **options)
    with jax.enable_x64(True):
        measurement(cache, 1 << 20, clock, dtype=np.float64).round()
    assert {leaf.dtype.name for result in results for leaf in result} == {"float64"}
    np.testing.assert_array_equal(results[-1][0], 2 * np.arange(64.0))


# Hot calls find their data where the call before left it; cold calls are at other addresses, outputs too.


def addresses(rotation, calls):
    inputs, outputs = [], []
    for _ in range(calls):
        result = rotation()
        inputs.append(rotation.last.unsafe_buffer_pointer())
        outputs.append(result.unsafe_buffer_pointer())
        del result
    return inputs, outputs


class Watched(InputRotation):
    """Remembers the input of the last call."""

    def __init__(self, how):
        def program(x):
            self.last = x
            return double(x)

        double = jax.jit(lambda x: 2 * x)
        super().__init__(program, [jax.device_put(np.arange(1 << 16, dtype=np.float32))], how)


def test_cold_calls_take_turns_with_inputs_and_outputs():
    inputs, outputs = addresses(Watched(InputSets(4, False)), 12)
    assert len({*inputs}) == 4
    assert inputs == inputs[:4] * 3
    for index in range(12 - 4):
        assert len({*outputs[index : index + 4]}) == 4  # as many calls later at the earliest


def test_hot_calls_keep_nothing():
    rotation = Watched(HOT)
    inputs, _ = addresses(rotation, 5)
    assert len({*inputs}) == 1
    results = [weakref.ref(rotation()) for _ in range(3)]
    assert [result() for result in results] == [None] * 3
