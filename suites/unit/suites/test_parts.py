"""Parts of a run: even, stable, and groups stay together. test_executor merges parts."""

import pytest

from suites.cells.parts import share


@pytest.mark.parametrize("count", [1, 3, 8])
def test_each_group_is_in_one_part_and_the_parts_are_even(count):
    weights = {f"kernel {number}": 1 + number % 7 for number in range(100)}
    parts = [share(weights, (number, count)) for number in range(1, count + 1)]
    assert sorted(group for part in parts for group in part) == sorted(weights)
    loads = [sum(weights[group] for group in part) for part in parts]
    assert max(loads) - min(loads) <= max(weights.values())
    assert parts == [share(dict(reversed(weights.items())), (number, count)) for number in range(1, count + 1)]
