"""The rule behind the verdicts, and simulated comparisons."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.statistics.calibration import ModelNoise, RecordedNoise, calibrate
from reports.statistics.decision import Evidence, decide
from reports.statistics.verdict_codes import Code, Verdict

MIRROR = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}


def verdicts(base, head, smallest=0.02, large=0.1, q=0.02):
    """The decisions on cells: a row of logarithms per cell."""
    evidence = Evidence.gathered(list(zip(base, head, strict=True)))
    return decide(evidence, smallest=np.array(smallest), large=np.array(large), q=q)


def processes(random, deviation, count, cells=1):
    return (deviation * random.standard_normal((cells, count))).tolist()


CELLS = st.lists(
    st.tuples(*(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=9) for _ in range(2))), min_size=1, max_size=6
)


@settings(max_examples=60)
@given(CELLS)
def test_swapped_sides_give_mirrored_verdicts(cells):
    base, head = zip(*cells, strict=True)
    one, other = verdicts(base, head), verdicts(head, base)
    assert [MIRROR.get(verdict, verdict) for verdict in one.verdicts] == list(other.verdicts)
    assert list(one.codes) == list(other.codes)


@settings(max_examples=60)
@given(CELLS, st.integers(-40, 40))
def test_the_unit_of_time_does_not_matter(cells, scale):
    base, head = zip(*cells, strict=True)
    # A power of two keeps the differences of these numbers exact.
    moved = [[[value + scale / 4 for value in side] for side in sides] for sides in (base, head)]
    rounded = [[[round(value * 256) / 256 for value in side] for side in sides] for sides in (base, head)]
    moved = [[[value + scale / 4 for value in side] for side in sides] for sides in rounded]
    assert list(verdicts(*rounded).verdicts) == list(verdicts(*moved).verdicts)


@settings(max_examples=60)
@given(CELLS)
def test_every_verdict_has_a_code_that_fits(cells):
    base, head = zip(*cells, strict=True)
    found = verdicts(base, head)
    codes = {
        Verdict.SAME: {Code.WITHIN},
        Verdict.SLOWER: {Code.BEYOND},
        Verdict.FASTER: {Code.BEYOND},
        Verdict.UNSURE: {Code.SMALL, Code.NOISE, Code.FEW_PROCESSES},
    }
    assert all(code in codes[verdict] for verdict, code in zip(found.verdicts, found.codes, strict=True))
    assert ((found.p >= 0) & (found.p <= 1)).all()


def test_a_certain_difference_below_the_smallest_effect_is_the_same():
    random = np.random.default_rng(0)
    base = processes(random, 0.0005, 8)
    assert verdicts(base, [[x + 0.01 for x in base[0]]]).verdicts[0] is Verdict.SAME
    assert verdicts(base, [[x + 0.03 for x in base[0]]]).verdicts[0] is Verdict.SLOWER


def test_a_noisy_cell_is_unsure_and_says_noise():
    random = np.random.default_rng(2)
    found = verdicts(processes(random, 0.3, 8), processes(random, 0.3, 8))
    assert found.worth[0] > math.log(1.1), "its noise floor decides"
    wide = verdicts([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]], [[0.0, 0.0, 0.0, 0.4, 0.4, 0.5, 0.6, 0.5]])
    assert (wide.verdicts[0], wide.codes[0]) == (Verdict.UNSURE, Code.NOISE)


def test_a_large_difference_among_many_cells_needs_enough_processes():
    random = np.random.default_rng(3)
    base, head = (processes(random, 0.001, 6, cells=60) for _ in range(2))
    head[7] = [x + 0.5 for x in head[7]]
    found = verdicts(base, head)
    assert (found.verdicts[7], found.codes[7]) == (Verdict.UNSURE, Code.FEW_PROCESSES)


def test_the_share_of_false_discoveries_is_controlled():
    """With real differences in a quarter of the cells, few of the others are called different."""
    random = np.random.default_rng(4)
    false = called = 0
    for _ in range(60):
        base, head = (processes(random, 0.03, 10, cells=40) for _ in range(2))
        head[:10] = [[x + 0.3 for x in row] for row in head[:10]]
        found = np.isin(verdicts(base, head, smallest=0.0).verdicts, (Verdict.SLOWER, Verdict.FASTER))
        called += found.sum()
        false += found[10:].sum()
    assert called > 590
    assert false / called <= 0.03


def test_comparisons_of_equal_revisions_are_quiet_and_slowdowns_are_found():
    found = calibrate(ModelNoise(50, 0.005, 0.03), 8, (0.0001, 0.1), smallest=0.02, large=0.1, q=0.02, runs=300)
    assert found.slower <= 3
    assert found.found[0.1] >= 0.95
    assert found.found[0.0001] <= 0.02
    assert found.same > 0.9


def test_a_process_that_is_slow_in_all_cells_raises_no_alarm():
    """All cells move together, so chance could make many of them significant at once."""
    found = calibrate(ModelNoise(40, 0.005, 0.01, shared=0.03), 8, (), smallest=0.0, large=0.1, q=0.02, runs=400)
    assert found.slower + found.faster <= 16, "2 % expected at most; three standard deviations more are 4 %"


def test_an_h200_finds_three_percent():
    """Its cells differ by 0.04 % between processes, small ones by 1 %."""
    found = calibrate(ModelNoise(115, 0.0004, 0.01), 8, (0.03,), smallest=0.01, large=0.03, q=0.02, runs=200)
    assert found.slower <= 2
    assert found.found[0.03] >= 0.95


def test_too_few_processes_find_nothing_and_claim_nothing():
    found = calibrate(ModelNoise(50), 3, (0.2,), smallest=0.02, large=0.1, q=0.02, runs=20)
    assert (found.slower, found.same, found.undecided, found.found) == (0, 0.0, 1.0, {0.2: 0.0})


def test_the_same_seed_gives_the_same_simulation():
    noise = RecordedNoise((np.random.default_rng(0).standard_normal((3, 5)) / 50,))
    first, second = (calibrate(noise, 6, (0.5,), smallest=0.02, large=0.1, q=0.5, runs=20) for _ in range(2))
    assert first == second
    with pytest.raises(ValueError, match="expected one of each or more"):
        calibrate(noise, 0, (), smallest=0.02, large=0.1, q=0.02)


@pytest.mark.parametrize("wanted", [8, 12, 40])
def test_recorded_noise_keeps_its_spread(wanted):
    recorded = 5 + np.random.default_rng(1).standard_normal((400, 12)) * np.geomspace(0.01, 1, 400)[:, None]
    random = np.random.default_rng(2)
    drawn = np.concatenate([RecordedNoise((recorded,)).draw(random, wanted) for _ in range(20)], axis=1)
    assert drawn.shape == (400, 20 * wanted)
    ratio = drawn.std(axis=1) / recorded.std(axis=1, ddof=1)
    assert np.median(ratio) == pytest.approx(1.0, abs=0.06)
    assert np.allclose(drawn.mean(axis=1), recorded.mean(axis=1), atol=0.25)


def test_a_process_is_drawn_with_all_of_its_cells():
    recorded = np.arange(12.0).reshape(1, 12).repeat(3, axis=0)
    drawn = RecordedNoise((recorded,)).draw(np.random.default_rng(0), 10)
    assert (drawn == drawn[0]).all()
    assert len({*drawn[0]}) == 10
