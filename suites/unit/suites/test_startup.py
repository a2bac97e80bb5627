"""The measurement of imports and first kernels."""

import subprocess

import pytest

from suites.dispatch import startup


def test_rows_have_names_of_their_own_and_programs_that_compile():
    assert len({row.name for row in startup.ROWS}) == len(startup.ROWS)
    for row in startup.ROWS:
        compile(row.program, row.name, "exec")


def test_each_round_measures_all_rows_in_turns(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(startup, "measure", lambda row, folder: seen.append(row.name) or 0.001 * len(seen))
    startup.main(2)
    names = [row.name for row in startup.ROWS]
    assert seen == 3 * names
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["ms", "minimum", "median"]
    first = len(names) + 1  # the first round only fills caches
    assert lines[1].split()[-2:] == [str(first), str(round(first + len(names) / 2))]


def test_a_first_kernel_leaves_its_handlers_in_the_folder_of_warm_rows(tmp_path):
    row = next(row for row in startup.ROWS if row.name == "first kernel, handlers on disk")
    assert 0 < startup.measure(row, str(tmp_path)) < 600
    assert {path.name.partition("-")[0] for path in (tmp_path / "native-1").iterdir()} == {"bridge_cpu", "bridge_error"}


def test_a_program_that_fails_is_an_error(tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        startup.measure(startup.Row("broken", "raise SystemExit(3)"), str(tmp_path))
