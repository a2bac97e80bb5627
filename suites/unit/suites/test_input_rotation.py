"""Hot calls find their data where the call before left it; cold calls are at other addresses, outputs too."""

import weakref

import jax
import numpy as np

from suites.timing.cuda_measurement import HOT, InputRotation, InputSets


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
