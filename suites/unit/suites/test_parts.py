"""Parts of a run: even, stable, groups that stay together; and several machines that run one suite."""

import shlex
from pathlib import Path

import pytest

from reports import load_run
from reports.judgement import judge
from reports.options import Exit
from reports.records.store import RUNS_VARIABLE
from suites.cells.parts import share
from suites.commands.command_line import main
from suites.unit.reports.builders import make_pair, whole
from suites.unit.suites.git_repositories import OPERATORS

TWO = OPERATORS + OPERATORS.replace("twice", "thrice").replace("OPERATOR", "OTHER").replace("2 *", "3 *")
"""A file with two operators."""


@pytest.mark.parametrize("count", [1, 3, 8])
def test_each_group_is_in_one_part_and_the_parts_are_even(count):
    weights = {f"kernel {number}": 1 + number % 7 for number in range(100)}
    parts = [share(weights, (number, count)) for number in range(1, count + 1)]
    assert sorted(group for part in parts for group in part) == sorted(weights)
    loads = [sum(weights[group] for group in part) for part in parts]
    assert max(loads) - min(loads) <= max(weights.values())
    assert parts == [share(dict(reversed(weights.items())), (number, count)) for number in range(1, count + 1)]


def recorded(folder, number, *arguments):
    path = folder / f"part-{number}"
    assert main([*arguments, "--part", f"{number}/2", "--runs", str(path)]) == Exit.FINE
    return next(path.glob("*.jsonl"))


def test_parts_of_a_bench_become_one_run_and_a_missing_one_is_named(folder, capsys, monkeypatch):
    Path("my_ops.py").write_text(TWO)
    names = ["--operator", "twice", "--operator", "thrice"]  # each part has cells of one of them
    arguments = ["bench", "my_ops.py", *names, "--size", "64", "--profile", "quick", "--processes", "1"]
    parts = [str(recorded(folder, number, *arguments)) for number in (1, 2)]
    shows = capsys.readouterr().err.rpartition("show them again: kernel-bridge ")[2]
    monkeypatch.delenv(RUNS_VARIABLE)  # another process does not have it
    assert main(shlex.split(shows)) == Exit.FINE
    assert main(["merge", *reversed(parts), "--runs", str(folder / "whole")]) == Exit.FINE
    (path,) = (folder / "whole").glob("*.jsonl")
    merged = load_run(path)
    assert (merged.is_complete, merged.problems, judge(merged).exit) == (True, [], Exit.FINE)
    cells = {(record.cell.operator, record.cell.backend) for record in merged.records}
    assert cells == {(name, backend) for name in ("twice", "thrice") for backend in ("jnp", "numba")}
    assert main(["merge", parts[0], "--runs", str(folder / "half")]) == Exit.COULD_NOT_RUN
    assert "part 2/2 is missing" in capsys.readouterr().err
    assert main(["merge", parts[0], parts[0]]) == Exit.COULD_NOT_RUN
    assert "Name each part once" in capsys.readouterr().err
    Path("other.jsonl").write_bytes(whole(make_pair(1000.0, 500.0)))
    assert main(["merge", str(path), "other.jsonl"]) == Exit.COULD_NOT_RUN
    assert "other.jsonl: is not a part of a run: it was recorded without --part" in capsys.readouterr().err
