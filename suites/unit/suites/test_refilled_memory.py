"""Refilled memory keeps its addresses and changes its contents."""

import jax
import numpy as np
import pytest

from suites.checks.judging.memory import RefilledMemory
from suites.checks.test_memory import _contents


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "complex64"])
def test_other_contents_lie_at_the_same_addresses(dtype):
    random = np.random.default_rng(0)
    first, second = ((random.integers(0, 2, 1001).astype(dtype), random.integers(0, 9, (3, 5), np.int32)) for _ in "ab")
    with jax.enable_x64(True):
        memory = RefilledMemory(first, jax.devices("cpu")[0])
        addresses = []
        for inputs in (first, second, first):
            placed = memory.fill(inputs)
            addresses.append([array.unsafe_buffer_pointer() for array in placed])
            assert all(np.array_equal(array, own) for array, own in zip(placed, inputs, strict=True))
    assert addresses[0] == addresses[1] == addresses[2]


def test_what_changes_keeps_ends_lengths_and_sums():
    random = np.random.default_rng(1)
    first, second = (
        (random.standard_normal(100), np.arange(100), np.ones(1), random.permutation(100)) for _ in "ab"
    )  # fmt: skip
    contents = list(_contents(first, second))
    changed = [inputs for where, inputs in contents if "same address," in where]
    assert len(changed) == 2  # offsets, parameters and permutations stay as they are
    for inputs in changed:
        assert 1 <= (inputs[0] != first[0]).sum() <= 2
        assert inputs[0][0] == first[0][0]
        assert inputs[0][-1] == first[0][-1]
        assert all(own is other for own, other in zip(inputs[1:], first[1:], strict=True))
    assert np.sort(changed[1][0]).tolist() == np.sort(first[0]).tolist()
