"""The page of the dispatch benchmark, on made-up data."""

import re

import pytest

from reports.pages.call_costs import Target, TargetVerdict, call_cost_tables, is_dispatch, targets
from reports.pages.data_frame import to_frame
from reports.pages.rows import cell_rows
from reports.pages.spread import Spread, round_ratios
from reports.records.measurements import DispatchFacts
from reports.records.status import Status
from reports.render.markdown import render as as_markdown
from reports.render.terminal import render as as_text
from suites.unit.reports.builders import make_cell, make_record, make_run, make_timing

RUN = make_run(profile="dispatch")
LIMITS = {"numba": {"cpp": 1.0, "warp": 0.01}}


def make_path(path, samples_ns=None, mode="loop", **changes):
    """A cell of a path; without samples it was skipped."""
    facts = DispatchFacts(title=path.upper(), mode_title="in a loop", reference="cpp", limits=LIMITS.get(path, {}))
    if samples_ns is None:
        changes = {"status": Status.SKIPPED, "reason": "Warp is not installed"} | changes
    else:
        changes = {"timing": make_timing(samples_ns=samples_ns, stop="3 interleaved rounds")} | changes
    cell = make_cell(operator="add", backend=path, mode=mode, size=16)
    return make_record(cell, run=RUN, dispatch=facts, **changes)


RECORDS = [
    make_path("numba", [8000.0, 9000.0, 30000.0]),
    make_path("cpp", [10000.0, 10000.0, 30000.0]),
    make_path("warp"),
]


def test_a_ratio_compares_samples_of_one_round():
    # The machine is three times slower in the second round; the ratio does not see it.
    assert round_ratios([10.0, 30.0, 10.0], [20.0, 60.0, 20.0]) == [0.5, 0.5, 0.5]
    with pytest.raises(ValueError, match="zip"):
        round_ratios([1.0], [1.0, 2.0])


def test_spread_is_median_and_20th_and_80th_percentile():
    assert Spread.of([5, 1, 2, 4, 3, 6]) == Spread(3.5, 2.0, 5.0)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (Spread(1.0, 0.9, 1.3), TargetVerdict.MET),
        (Spread(1.001, 0.5, 1.1), TargetVerdict.MISSED),
        (None, TargetVerdict.NOT_MEASURED),
    ],
)
def test_a_target_is_judged_by_the_median_ratio(ratio, verdict):
    assert Target("loop", "numba", "cpp", 1.0, ratio).verdict is verdict


def test_targets_read_aloud():
    assert Target("eager", "numba", "jnp", 1.2, None).text == "eager: numba <= 1.20x jnp"
    assert Target("loop", "numba", "warp", 0.01, None).text == "loop: numba at least 100x below warp"


def test_targets_are_judged_on_the_rounds_of_their_mode():
    elsewhere = make_path("cpp", [1.0, 1.0, 1.0], mode="jit")
    met, unmeasured = targets(cell_rows([*RECORDS, elsewhere]))
    assert met.measured.median == pytest.approx(0.9)
    assert (met.verdict, unmeasured.verdict) == (TargetVerdict.MET, TargetVerdict.NOT_MEASURED)


def test_the_page_shows_times_ratios_targets_and_what_is_missing():
    shown = as_markdown(call_cost_tables(RECORDS), 200)
    dash = "\N{EN DASH}"
    assert re.search(rf"\| NUMBA +\| +9.00 \| +8.40{dash}21.6 \|", shown)
    assert re.search(rf"\| NUMBA +\| +0.900 \| +0.840{dash}0.960 \|", shown)
    assert re.search(rf"\| loop: numba .<= 1.00x cpp +\| +0.900 \(0.840{dash}0.960\) \| +met \|", shown)
    assert re.search(r"\| WARP +\| SKIPPED \| Warp is not installed \|", shown)
    assert "a float32 add of 16 elements; 3 interleaved rounds" in shown


def test_a_path_that_is_missing_in_all_modes_has_one_line():
    table = call_cost_tables([*RECORDS, make_path("warp", mode="jit")])[-1]
    assert len(table.rows) == 1


def test_a_run_in_which_nothing_was_measured_says_why():
    tables = call_cost_tables([make_path("warp")])
    assert "Warp is not installed" in as_text(tables, 100)


def test_the_frame_has_the_ratio_to_the_reference():
    frame = to_frame(RECORDS)
    assert list(frame["ratio"][:2]) == [pytest.approx(0.9), 1.0]
    assert list(frame["reference"]) == ["cpp"] * 3
    assert frame["ratio"].isna().iloc[2]


@pytest.mark.parametrize("width", [80, 200])
def test_the_page_fits_the_terminal(width):
    assert max(map(len, as_text(call_cost_tables(RECORDS), width).splitlines())) <= width


def test_other_runs_have_other_pages():
    assert is_dispatch(RECORDS)
    assert not is_dispatch([make_record()])
    assert not is_dispatch([])
