"""Change points: none in noise, the right ones in steps, and exact p-values."""

import itertools
import math

import numpy as np
import pytest

from reports.records.run_file import load_run
from reports.records.store import find_run
from reports.statistics import change_points
from reports.statistics.change_points import LEAST, LEVEL, changes, intervals, shift_at
from reports.statistics.ranks import pairs_tail, shift_interval
from suites.unit.structure.house import PROJECT

STEP = math.log(1.1)
SMALLEST = math.log(1.02)


def recorded_noise():
    """The deviations of ratios to jnp in two runs of the same machine, an hour apart, in random directions."""
    runs = []
    for name in ("20261122T145809-aca4", "20261122T160144-a694"):
        records = load_run(find_run(name, PROJECT / "reports/published/epyc-2core")).records
        times = {record.cell.key: record.timing.median_ns for record in records if record.timing}
        pairs = {key: (*key[:2], "jnp", *key[3:]) for key in times if key[2] != "jnp"}
        runs.append({key: math.log(times[key] / times[other]) for key, other in pairs.items() if other in times})
    base, head = runs
    return np.array([base[key] - head[key] for key in base if key in head]) / math.sqrt(2)


def drawn(kind, seed, shape):
    random = np.random.default_rng(seed)
    if kind == "recorded":
        return random.choice(recorded_noise(), size=shape) * random.choice([-1, 1], size=shape)
    if kind == "outliers":
        return 0.02 * random.standard_t(2, size=shape)
    return float(kind) * random.standard_normal(shape)


@pytest.mark.parametrize("length", [10, 20, 50])
@pytest.mark.parametrize("kind", ["recorded", "outliers", "0.05"])
def test_at_most_one_series_of_noise_in_a_hundred_shows_a_change(kind, length):
    rows = drawn(kind, length, (400, length))
    alone = sum(bool(changes([row], [0.0])[0]) for row in rows)
    # 4 of 400 are expected at most; more than 11 come once in a thousand draws of a procedure that errs in 1 %.
    assert alone <= 11


def test_of_many_series_of_noise_hardly_one_shows_a_change():
    pages = [drawn("recorded", seed, (60, 30)) for seed in range(20)]
    assert sum(any(changes(list(page), [0.0] * 60)) for page in pages) <= 3


@pytest.mark.parametrize(("kind", "length", "share"), [("0.02", 12, 0.9), ("0.05", 30, 0.8), ("recorded", 120, 0.75)])
def test_a_step_of_ten_percent_is_found_in_most_series(kind, length, share):
    rows = drawn(kind, length, (100, length))
    rows[:, length // 2 :] += STEP
    near = 0
    for row in rows:
        found = changes([row], [SMALLEST])[0]
        near += any(abs(one.place - length // 2) <= length // 6 and one.size > 0 for one in found)
    assert near >= 100 * share


def test_a_step_of_one_series_is_found_among_many():
    rows = drawn("0.02", 3, (60, 30))
    rows[17, 20:] -= STEP
    found = changes(list(rows), [SMALLEST] * 60)
    assert [place for place, own in enumerate(found) if own] == [17]
    (one,) = found[17]
    assert abs(one.place - 20) <= 1
    assert one.low <= one.size <= one.high < -SMALLEST
    assert one.low < -STEP < one.high


def test_a_change_that_was_undone_gives_two_changes():
    numbers = drawn("0.02", 5, (60,))
    numbers[25:40] += STEP
    first, second = changes([numbers], [SMALLEST])[0]
    assert abs(first.place - 25) <= 1
    assert abs(second.place - 40) <= 1
    assert first.size > 0 > second.size


def test_three_runs_after_a_large_change_are_enough_in_a_long_series():
    numbers = drawn("0.02", 6, (80,))
    numbers[-LEAST:] += math.log(1.5)
    (one,) = changes([numbers], [SMALLEST])[0]
    assert one.place == 80 - LEAST


def test_a_small_change_is_not_worth_a_mention():
    numbers = drawn("0.001", 7, (60,))
    numbers[30:] += math.log(1.01)
    assert changes([numbers], [SMALLEST]) == [[]]
    assert len(changes([numbers], [0.0])[0]) == 1


@pytest.mark.parametrize("numbers", [[], [1.0], [1.0] * 5, [1.0] * 50, [1.0, 2.0] * 25])
def test_short_and_constant_series_have_no_change(numbers):
    assert changes([np.array(numbers)], [0.0]) == [[]]


def test_the_same_series_give_the_same_changes_in_any_company_of_equals():
    rows = drawn("0.05", 8, (3, 40))
    rows[1, 15:] += math.log(1.3)
    assert changes(list(rows), [0.0] * 3)[1] == changes(list(rows[::-1]), [0.0] * 3)[1]


def test_the_p_value_of_the_clearest_order_of_ten_is_exact():
    """Of ten numbers, only 2 orders of 252 splits in the middle are as clear as the sorted one."""
    p = change_points._p_values(np.array([-math.log(2 / 252)]), 10, LEVEL)
    assert p[0] == pytest.approx(2 / 252, abs=0.004)


def test_a_p_value_is_never_above_its_bound_by_more_than_chance():
    for length in (12, 20, 40):
        drawn_orders = change_points._without_change(change_points._rounded(length))
        clearness = float(np.quantile(drawn_orders, 0.995))
        assert change_points._bound(clearness, length) >= 0.003


def test_tails_are_exact():
    for few, many in itertools.combinations_with_replacement(range(1, 9), 2):
        np.testing.assert_allclose(change_points._tails(few, many), pairs_tail(few, many), rtol=1e-12)


def test_the_normal_distribution_never_makes_a_rare_order_rarer(monkeypatch):
    for few, many in itertools.combinations_with_replacement(range(4, 13), 2):
        exact = change_points._exact_tails(few, many)
        with monkeypatch.context() as patch:
            patch.setattr(change_points, "_EXACT", 0)
            normal = change_points._tails(few, many)
        rare = exact <= LEVEL / 2
        assert (normal[rare] >= exact[rare]).all()


def test_the_interval_of_a_shift_is_the_exact_one():
    rows = drawn("0.05", 9, (2, 12))
    before, after = rows[:, :7], rows[:, 7:]
    for row, low, high in zip(rows, *shift_interval(before, after), strict=True):
        assert shift_at(row[:7], row[7:])[1:] == pytest.approx((low, high))
    assert shift_at(np.array([1.0, 2, 3]), np.array([2.0, 3, 4])) == (1.0, -math.inf, math.inf)


@pytest.mark.parametrize("length", [6, 7, 10, 33, 500])
def test_intervals_cover_a_series(length):
    found = intervals(length)
    assert found[0] == (length, [0])
    for width, starts in found:
        assert width >= 2 * LEAST
        assert starts[0] == 0
        assert starts[-1] + width == length
        assert (np.diff(starts) <= width).all()
