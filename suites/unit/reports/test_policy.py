"""The policy of the gate: what a pyproject.toml may say, and how mistakes are told."""

import datetime

import pytest

from reports.errors import PolicyError
from reports.gate.policy import Policy, find_policy, parse_policy
from suites.unit.reports.builders import make_cell

ENTRY = '{cell = "add-*", reason = "more exact", until = 2026-12-31}'


def parsed(table):
    return parse_policy(f"[tool.kernel-bridge.gate]\n{table}\n")


def test_every_key_is_read():
    policy = parsed(
        'base = "origin/main"\noperators = ["my_ops.py"]\nsmallest = {cpu = 0.05, cuda = 0.015}\nlarge = {cpu = 0.2}\n'
        "false-discovery-rate = 0.01\nminutes = 20\nmost-unsure = 0\n"
        f"allow = [{ENTRY}]"
    )
    assert policy.base == "origin/main"
    assert policy.operators == ("my_ops.py",)
    assert policy.smallest == {"cpu": 0.05, "cuda": 0.015}
    assert policy.large == {"cpu": 0.2}
    assert (policy.false_discovery_rate, policy.minutes, policy.most_unsure) == (0.01, 20, 0)
    (entry,) = policy.allow
    assert (entry.cell, entry.reason, entry.until) == ("add-*", "more exact", datetime.date(2026, 12, 31))


def test_a_file_without_the_table_has_no_policy():
    assert parse_policy("[project]\nname = 'x'\n") is None
    assert parse_policy("[tool.other]\ngate = 1\n") is None
    assert parse_policy("tool = 1\n") is None
    assert parse_policy("[tool.kernel-bridge]\n") == parsed("") == Policy()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("minuts = 3", "unknown field `minuts`"),
        ("minutes = 0", "Expected `float` > 0.0 - at `gate.minutes`"),
        ("smallest = {gpu = 0.05}", "Invalid enum value 'gpu'"),
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
