"""The gate decides: which cells fail a change, which leave it undecided, and which are excused."""

import dataclasses
import datetime

import pytest

from reports.errors import PolicyError
from reports.gate.policy import Allowed, Policy, find_policy, parse_policy
from reports.gate.ruling import Effect, decide_gate
from reports.options import Exit
from reports.pages.compare import Comparison
from reports.records.status import Status
from reports.statistics.verdict_codes import Code, Verdict
from suites.unit.reports.builders import make_cell

TODAY = datetime.date(2026, 11, 22)


def one(verdict=Verdict.SAME, code=None, *, head=Status.PASSED, base=Status.PASSED, **cell):
    usual = {
        Verdict.SAME: Code.WITHIN, Verdict.SLOWER: Code.BEYOND, Verdict.FASTER: Code.BEYOND, Verdict.UNSURE: Code.NOISE,
        Verdict.NEW: Code.ABSENT, Verdict.MISSING: Code.ABSENT, Verdict.NOT_COMPARABLE: Code.CONDITIONS,
        Verdict.BROKEN: Code.FAILED, Verdict.FIXED: Code.FAILED,
    }  # fmt: skip
    statuses = {
        "base_status": None if verdict is Verdict.NEW else base,
        "head_status": None if verdict is Verdict.MISSING else head,
    }
    return Comparison(cell=make_cell(**cell), verdict=verdict, code=code or usual[verdict], **statuses)


WRONG = {"verdict": Verdict.BROKEN, "head": Status.WRONG_VALUE}
OUT_OF_MEMORY = {"verdict": Verdict.NOT_COMPARABLE, "code": Code.UNJUDGED, "head": Status.OOM}
FIXED = {"verdict": Verdict.FIXED, "base": Status.WRONG_VALUE}


def allowed(cell="*", until=datetime.date(2026, 12, 31), reason="known"):
    return Allowed(cell=cell, reason=reason, until=until)


def decided(*comparisons, **options):
    policy = Policy(**{name: options.pop(name) for name in ("allow", "most_unsure") if name in options})
    return decide_gate(policy, comparisons, today=TODAY, **options)


@pytest.mark.parametrize(
    ("facts", "effect", "code"),
    [
        ({"verdict": Verdict.SAME}, Effect.PASSES, Exit.FINE),
        ({"verdict": Verdict.UNSURE, "code": Code.SMALL}, Effect.PASSES, Exit.FINE),
        ({"verdict": Verdict.SLOWER}, Effect.FAILS, Exit.WRONG),
        (WRONG, Effect.FAILS, Exit.WRONG),
        (OUT_OF_MEMORY, Effect.UNDECIDED, Exit.COULD_NOT_RUN),
        (FIXED, Effect.PASSES, Exit.FINE),
        ({"verdict": Verdict.UNSURE}, Effect.UNSURE, Exit.COULD_NOT_RUN),
        ({"verdict": Verdict.MISSING}, Effect.UNDECIDED, Exit.COULD_NOT_RUN),
        ({"verdict": Verdict.NOT_COMPARABLE, "code": Code.SKIPPED, "head": Status.SKIPPED}, Effect.IDLE, Exit.FINE),
    ],
)  # fmt: skip
def test_each_cell_has_its_effect(facts, effect, code):
    """Beside a cell that is the same, so that something was compared."""
    decision = decided(one(operator="other"), one(**facts), most_unsure=0)
    assert decision.rulings[1].effect is effect
    assert decision.exit is code
    assert bool(decision.lines) is (code is not Exit.FINE)


@pytest.mark.parametrize(("unsure", "most", "code"), [
    (1, 0.1, Exit.FINE), (2, 0.1, Exit.COULD_NOT_RUN), (10, 1.0, Exit.FINE), (1, 0.0, Exit.COULD_NOT_RUN),
])  # fmt: skip
def test_a_share_of_the_cells_may_stay_unsure(unsure, most, code):
    cells = [one(Verdict.UNSURE if number < unsure else Verdict.SAME, size=number + 1) for number in range(10)]
    decision = decided(*cells, most_unsure=most)
    assert decision.exit is code
    if code is not Exit.FINE:
        assert decision.lines[0].startswith(f"UNSURE: {unsure} cell")
        assert f"most-unsure allows {most:.0%}" in decision.lines[0]


@pytest.mark.parametrize(
    ("ratio", "low", "high", "effect", "code"),
    [
        (1.04, 0.99, 1.09, Effect.PASSES, Exit.FINE),
        (1.04, 0.8, 1.3, Effect.UNSURE, Exit.FINE),
        (1.3, 0.9, 1.9, Effect.SUSPECT, Exit.COULD_NOT_RUN),
        (3.0, None, None, Effect.SUSPECT, Exit.COULD_NOT_RUN),
    ],
)
def test_an_unsure_cell_beyond_the_large_effect_never_passes(ratio, low, high, effect, code):
    """However large the share of cells is that may stay unsure."""
    cell = dataclasses.replace(one(Verdict.UNSURE), ratio=ratio, low=low, high=high)
    decision = decided(one(operator="other"), cell, most_unsure=1.0)
    assert decision.rulings[1].effect is effect
    assert decision.exit is code


def test_cells_that_were_not_compared_do_not_thin_out_the_unsure():
    cells = [one(Verdict.UNSURE), *(one(Verdict.NEW, size=size) for size in range(1, 100)), one(size=200)]
    assert decided(*cells).exit is Exit.COULD_NOT_RUN


@pytest.mark.parametrize(
    ("comparisons", "options", "lines"),
    [
        ([], {}, ("no kernel was compared",)),
        ([one(**FIXED)], {}, ("no kernel was compared",)),
        ([one(), one(Verdict.NEW, platform="cuda")], {"platforms": ["cuda"]}, ("no kernel was compared on cuda",)),
        ([one(platform="cuda")], {"platforms": ["cuda"]}, ()),
        ([one()], {"doubts": ["head: INCOMPLETE: 3 cells are missing"]}, ("head: INCOMPLETE: 3 cells are missing",)),
    ],
)
def test_nothing_compared_and_a_doubt_are_no_success(comparisons, options, lines):
    decision = decided(*comparisons, **options)
    assert (decision.exit, decision.lines) == (Exit.COULD_NOT_RUN if lines else Exit.FINE, lines)


def test_no_entry_excuses_a_wrong_result_and_one_that_excuses_nothing_is_named():
    decision = decided(one(size=1), one(**WRONG), one(**FIXED, size=7), allow=(allowed(),))
    assert decision.exit is Exit.WRONG
    assert decision.notes[1:] == (
        "the entry '*' (known, until 2026-12-31) excuses nothing: remove it",
        "wrong in base, right in head, so no times to compare: lif_step-numba-f32-7-cpu",
    )


def test_an_entry_for_a_cell_outside_of_the_selection_is_not_to_be_removed():
    decision = decided(one(), allow=(allowed("conv-*"),))
    assert decision.notes[1:] == ("the entry 'conv-*' (known, until 2026-12-31) fits no cell of this comparison",)


@pytest.mark.parametrize("verdict", [Verdict.SLOWER, Verdict.UNSURE, Verdict.MISSING, Verdict.NOT_COMPARABLE])
def test_an_entry_excuses_a_cell_and_is_named(verdict):
    decision = decided(one(size=1), one(verdict), allow=(allowed("lif_step-*-4096-*"),), most_unsure=0)
    assert decision.exit is Exit.FINE
    assert [each.effect for each in decision.rulings] == [Effect.PASSES, Effect.EXCUSED]
    assert decision.notes[1:] == (
        f"the entry 'lif_step-*-4096-*' (known, until 2026-12-31) excuses lif_step-numba-f32-4096-cpu {verdict}",
    )


@pytest.mark.parametrize(("until", "code"), [(TODAY, Exit.FINE), (TODAY - datetime.timedelta(days=1), Exit.WRONG)])
def test_an_entry_counts_to_the_end_of_its_last_day(until, code):
    decision = decided(one(size=1), one(Verdict.SLOWER), allow=(allowed(until=until),))
    assert decision.exit is code
    if code is Exit.WRONG:
        assert decision.notes[1:] == ("the entry '*' (known, until 2026-11-21) expired 1 day ago: it excuses nothing",)


# What a pyproject.toml may say, and how mistakes are told.


ENTRY = '{cell = "add-*", reason = "more exact", until = 2026-12-31}'


def parsed(table):
    return parse_policy(f"[tool.kernel-bridge.gate]\n{table}\n")


def test_a_file_without_the_table_has_no_policy():
    assert parse_policy("[project]\nname = 'x'\n") is None
    assert parse_policy("[tool.other]\ngate = 1\n") is None
    assert parse_policy("tool = 1\n") is None
    assert parse_policy("[tool.kernel-bridge]\n") == parsed("") == Policy()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("minutes = 0", "Expected `float` > 0.0 - at `gate.minutes`"),
        ("allow = [{cell = 'a', until = 2026-12-31}]", "missing required field `reason` - at `gate.allow[0]`"),
        (f"allow = [{ENTRY}, {{cell = 'a', reason = ' ', until = 2026-12-31}}]", "at `gate.allow[1].reason`"),
        ("[tool.kernel-bridge.gates]", "unknown field `gates`"),
        ("minutes = ", "is not TOML: "),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_says_where_and_what(table, words):
    with pytest.raises(PolicyError) as caught:
        parsed(table)
    said = str(caught.value)
    assert words in said
    assert "The keys of [tool.kernel-bridge.gate] are base, " in said or "TOML" in words
    assert said.startswith("pyproject.toml: ")
    assert "\n" not in said


def test_the_nearest_table_counts_and_paths_begin_there(tmp_path):
    inner = tmp_path / "project" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.kernel-bridge.gate]\nminutes = 1\n")
    (tmp_path / "project" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    policy, home = find_policy(inner)
    assert (policy.minutes, home) == (1, tmp_path)
    (tmp_path / "project" / "pyproject.toml").write_text("[tool.kernel-bridge.gate]\nminutes = 2\n")
    policy, home = find_policy(inner)
    assert (policy.minutes, home) == (2, tmp_path / "project")
    (inner / "pyproject.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match=r"pyproject.toml: cannot be read"):
        find_policy(inner)


def test_a_pattern_fits_the_id_of_a_cell_and_its_parameters():
    cell = make_cell(platform="cuda", params={"cache": "cold"})
    fitting = ["lif_step-numba-f32-4096-cuda", "lif_step-*", "*-cuda", "*-cold"]
    patterns = [*fitting, "*-hot", "lif_step", "LIF_step-*", "lif_step-numba-f32-4096"]
    entries = [f"{{cell = '{pattern}', reason = 'why', until = 2026-12-31}}" for pattern in patterns]
    found = parsed(f"allow = [{', '.join(entries)}]").allow
    assert [entry.cell for entry in found if entry.fits(cell)] == fitting
