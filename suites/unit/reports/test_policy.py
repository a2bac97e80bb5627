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
        "false-discovery-rate = 0.01\nminutes = 20\nmost-unsure = 0\nbaselines = 'kept'\nmax-age-days = 7\n"
        f"allow = [{ENTRY}]"
    )
    assert policy.base == "origin/main"
    assert policy.operators == ("my_ops.py",)
    assert policy.smallest == {"cpu": 0.05, "cuda": 0.015}
    assert policy.large == {"cpu": 0.2}
    assert (policy.false_discovery_rate, policy.minutes, policy.most_unsure) == (0.01, 20, 0)
    assert (policy.baselines, policy.max_age_days) == ("kept", 7)
    (entry,) = policy.allow
    assert (entry.cell, entry.reason, entry.until) == ("add-*", "more exact", datetime.date(2026, 12, 31))


def test_a_file_without_the_table_has_no_policy():
    assert parse_policy("[project]\nname = 'x'\n") is None
    assert parse_policy("[tool.other]\ngate = 1\n") is None
    assert parse_policy("tool = 1\n") is None
    assert parse_policy("[tool.kernel-bridge]\n") == Policy()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("minuts = 3", "has the unknown key 'minuts'. Did you mean 'minutes'? Known: base, "),
        ("max_age_days = 3", "has the unknown key 'max_age_days'. Did you mean 'max-age-days'?"),
        ("minutes = 0", "minutes: Expected float > 0.0, received 0."),
        ("minutes = 'ten'", "minutes: Expected float, got str, received 'ten'."),
        ("smallest = 0.05", "smallest: Expected object, got float, received 0.05. Write shares, such as {cpu = 0.05"),
        ("smallest = {cpu = 5}", "received {'cpu': 5}. Write shares"),
        ("smallest = {gpu = 0.05}", "received {'gpu': 0.05}. Write shares"),
        ("false-discovery-rate = 1.0", "false-discovery-rate: Expected float < 1.0, received 1.0."),
        ("most-unsure = 1.5", "most-unsure: Expected float <= 1.0, received 1.5."),
        ("max-age-days = -1", "max-age-days: Expected float > 0.0, received -1."),
        ("base = ''", "base: Expected str matching regex"),
        ("base = 3", "base: Expected str | null, got int, received 3."),
        ("operators = 'my_ops.py'", "operators: Expected array, got str, received 'my_ops.py'."),
        ("allow = 3", "allow: Expected array, got int, received 3."),
        ("allow = [3]", "[tool.kernel-bridge.gate.allow[0]] is 3, expected a table."),
        ("allow = [{cell = 'a', until = 2026-12-31}]", "allow[0] has no reason. Write, for example, {cell = "),
        ("allow = [{reason = 'why'}]", "allow[0] has no cell and no until."),
        (f"allow = [{ENTRY}, {{cell = 'a', reason = ' ', until = 2026-12-31}}]", "allow[1].reason: Expected str"),
        ("allow = [{cell = '', reason = 'why', until = 2026-12-31}]", "allow[0].cell: Expected str matching"),
        ("allow = [{cell = 'a', reason = 'why', until = 'soon'}]", "received 'soon'. Write a day, such as until"),
        ("allow = [{cell = 'a', reason = 'why', until = 3}]", "allow[0].until: Expected date, got int"),
        ("allow = [{cell = 'a', reason = 'why', until = 2026-12-31, who = 'me'}]", "allow[0]] has the unknown key"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_says_where_and_what(table, words):
    with pytest.raises(PolicyError) as caught:
        parsed(table)
    said = str(caught.value)
    assert words in said
    assert said.startswith("pyproject.toml: [tool.kernel-bridge.gate")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.kernel-bridge.gates]\nminutes = 3\n", "unknown key 'gates'. Did you mean 'gate'?"),
        ("[tool]\nkernel-bridge = 3\n", "[tool.kernel-bridge] is 3, expected a table."),
        ("[tool.kernel-bridge]\ngate = 3\n", "[tool.kernel-bridge.gate] is 3, expected a table."),
        ("[tool.kernel-bridge.gate\n", "is not TOML: "),
        ("[tool.kernel-bridge.gate]\nallow = [{until = 2026-13-31}]\n", "is not TOML: "),
    ],
)  # fmt: skip
def test_a_misspelt_table_is_no_missing_one(text, words):
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


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


def test_without_a_table_the_policy_has_its_defaults(tmp_path, monkeypatch):
    assert parsed("") == Policy()
    policy, _ = find_policy(tmp_path)
    assert policy == Policy()


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "pyproject.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match=r"pyproject.toml: cannot be read"):
        find_policy(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("lif_step-numba-f32-4096-cuda", True),
        ("lif_step-*", True),
        ("*-cuda", True),
        ("*-cold", True),
        ("*-hot", False),
        ("lif_step", False),
        ("LIF_step-*", False),
        ("lif_step-numba-f32-4096", False),
    ],
)
def test_a_pattern_fits_the_id_of_a_cell_and_its_parameters(pattern, fits):
    cell = make_cell(platform="cuda", params={"cache": "cold"})
    (entry,) = parsed(f"allow = [{{cell = '{pattern}', reason = 'why', until = 2026-12-31}}]").allow
    assert entry.fits(cell) is fits
