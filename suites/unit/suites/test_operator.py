"""The declarations of the built-in operators agree with each other."""

import numpy as np
import pytest

from suites.ops import operators

GROWTH = {"nbody": 16, "matmul": 8, "attention": 8}
"""How many times as many operations four times the size takes: pairs of bodies, of rows and columns, of positions."""

OPERATORS = pytest.mark.parametrize("operator", operators().values(), ids=operators())


READS_LESS = {"embedding"}
"""The operators whose samples have elements that no call reads."""


@OPERATORS
def test_samples_depend_on_the_seed_alone(operator):
    first, again, other = (operator.sample("float32", 100, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert [array.shape for array in first] == [array.shape for array in other]  # so that they can be stacked


@OPERATORS
def test_declared_work_grows_with_size(operator):
    small, large = (operator.sample("float32", size, 0) for size in (100_000, 400_000))
    moved = [operator.bytes_read(*inputs) + operator.bytes_written(*inputs) for inputs in (large, small)]
    assert 3 < moved[0] / moved[1] < 5
    growth = operator.flops(*large) / operator.flops(*small)
    assert 3 < growth < 5 or growth == pytest.approx(GROWTH.get(operator.name, 4), rel=0.1)
    given = sum(array.nbytes for array in small)
    assert operator.bytes_read(*small) == given or (operator.name in READS_LESS and operator.bytes_read(*small) < given)
    outputs = [np.empty(out.shape, out.dtype) for out in operator.outputs(*small)]
    assert operator.bytes_written(*small) == sum(array.nbytes for array in outputs)
