"""The rule behind the verdicts: a table of cases, its symmetries, and how often it errs with recorded noise."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.statistics.decision import Times, decide, limits_in_force
from reports.statistics.verdict_codes import LARGE, Code, Verdict

MIRROR = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
QUIET = (1.0, 1.002, 0.999, 1.001, 1.003, 0.998, 1.0, 1.001)
NOISY = (1.0, 1.3, 0.8, 1.2, 0.9, 1.25, 0.85, 1.1)


def cell(base, head, platform="cpu"):
    return Times(dict(enumerate(base)), dict(enumerate(head)), platform)


TIMES = st.lists(st.floats(0.125, 8, width=32), min_size=1, max_size=8)
CELLS = st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("base", "head", "verdict", "code"),
    [
        # One or two blocks decide nothing, whatever they say.
        (QUIET[:2], [10.0, 10.0], Verdict.UNSURE, Code.FEW_PROCESSES),
        # From three on a factor is decided, in quiet and in noisy cells.
        (QUIET[:3], [1.7 * one for one in QUIET[:3]], Verdict.SLOWER, Code.BEYOND),
        (NOISY[:3], [10.0, 8.0, 12.0], Verdict.SLOWER, Code.BEYOND),
        # 8 % in four blocks may be noise with two modes; in six of a quiet cell it is not.
        (QUIET[:4], [1.08 * one for one in QUIET[1:5]], Verdict.UNSURE, Code.SMALL),
        # Six noisy blocks that agree in sign about half as much again are enough.
        (NOISY[:6], [1.5, 1.35, 1.6, 1.25, 1.5, 1.9], Verdict.SLOWER, Code.BEYOND),
        # What is not worth a verdict is the same, however sure it is.
        (QUIET[:6], [1.02 * one for one in QUIET[:6]], Verdict.SAME, Code.WITHIN),
        # A drift that reaches base and head alike is no difference.
        ([1.0, 2.0, 4.0, 8.0], [1.001, 1.999, 4.002, 8.001], Verdict.SAME, Code.WITHIN),
        (NOISY, NOISY[::-1], Verdict.UNSURE, Code.NOISE),
    ],
)
def test_a_cell_is_decided_as_a_colleague_would(base, head, verdict, code):
    (found,) = decide([cell(base, head)])
    assert (found.verdict, found.code) == (verdict, code)


def test_a_block_that_only_one_side_has_does_not_count():
    (found,) = decide([Times({0: 1.0, 1: 1.0, 2: 1.0, 7: 50.0}, {0: 1.0, 1: 1.001, 2: 1.0, 8: 0.01})])
    assert (found.verdict, found.pairs) == (Verdict.SAME, 3)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.05, Verdict.SAME), (1.12, Verdict.UNSURE), (1.28, Verdict.UNSURE), (1.6, Verdict.SLOWER), (10, Verdict.SLOWER)],
)
def test_two_sessions_decide_large_differences_only(factor, verdict):
    (found,) = decide([cell(QUIET[:4], [factor * one for one in QUIET[:4]])], sessions=True)
    assert found.verdict is verdict


def test_limits_of_sessions_are_never_below_those_of_blocks():
    assert limits_in_force({"cpu": 0.01}, sessions=True)[0]["cpu"] > limits_in_force({"cpu": 0.01})[0]["cpu"] == 0.01
    assert limits_in_force(large={"cpu": 0.5}, sessions=True)[1]["cpu"] == 0.5


@settings(max_examples=60)
@given(CELLS)
def test_swapped_sides_give_mirrored_verdicts(sides):
    one = decide([cell(base, head) for base, head in sides])
    other = decide([cell(head, base) for base, head in sides])
    assert [MIRROR.get(found.verdict, found.verdict) for found in one] == [found.verdict for found in other]


@pytest.mark.parametrize("q", [0, 1, -0.1, math.nan])
def test_a_share_that_is_none_is_refused(q):
    with pytest.raises(ValueError, match="expected a share between 0 and 1"):
        decide([], q=q)


# Recorded noise of old runs, with 0.025 s of timed loops a process where there are 0.3 s now. The processes of
# one run took turns, as base and head do in a block: two of them are one block of equal revisions. A process is drawn
# with all of its cells, for what disturbs one disturbs many. Logarithms of times, by platform, run, cell and process.
NOISE = {
    platform: [np.array(cells) for cells in runs.values()]
    for platform, runs in json.loads(Path(__file__).with_name("noise.json").read_text(encoding="utf-8")).items()
}


def simulated(platform, blocks, tables, slowdowns):
    """The share of tables of equal revisions with a false verdict, and of slowdowns of one cell that are found or held.

    A slowdown is held if the gate does not pass: it is SLOWER, or UNSURE beyond the large effect.
    """
    runs = NOISE[platform]
    random = np.random.default_rng(20261123)
    large = math.log1p(LARGE[platform])
    false, found, held = 0, dict.fromkeys(slowdowns, 0), dict.fromkeys(slowdowns, 0)
    for _ in range(tables):
        drawn = []
        for _ in range(blocks):
            run = runs[random.integers(len(runs))]
            drawn.append(run[:, random.permutation(run.shape[1])[:2]])
        base, head = np.exp(np.array(drawn).transpose(2, 1, 0))
        table = [cell(*sides, platform) for sides in zip(base, head, strict=True)]
        false += any(one.verdict in MIRROR for one in decide(table))
        place = int(random.integers(len(table)))
        for size in slowdowns:
            own = [*table[:place], cell(base[place], (1 + size) * head[place], platform), *table[place + 1 :]]
            one = decide(own)[place]
            found[size] += one.verdict is Verdict.SLOWER
            held[size] += one.verdict is Verdict.SLOWER or (
                one.verdict is Verdict.UNSURE and math.log(one.ratio) > large
            )
    return false / tables, *({size: count / tables for size, count in own.items()} for own in (found, held))


@pytest.mark.parametrize(
    ("platform", "blocks", "found", "held"),
    [
        ("cuda", 6, {0.1: 0.95, 0.5: 1.0, 9: 1.0}, 1.0),
        # Threads of kernels that want both cores of two compete with everything else: their noise has two modes.
        ("cpu", 6, {0.2: 0.45, 0.5: 0.85, 9: 1.0}, 0.99),
    ],
)
def test_recorded_noise_gives_few_false_alarms_and_hides_no_large_slowdown(platform, blocks, found, held):
    """Of whole tables of equal revisions at most 5 % are false, and 50 % and more does not pass the gate unseen.

    Reached: 10 % in 95 % of the cells of the H200 with six blocks. On two cores 20 % needs more than 32 blocks of the
    old noise; 50 % is SLOWER in 88 of 100 cells with six blocks, and the gate holds the others.
    """
    false, share, kept = simulated(platform, blocks, 50, found)
    assert false <= 0.05
    assert all(share[size] >= least for size, least in found.items()), share
    assert kept[0.5] >= held
    assert kept[9] == 1.0
