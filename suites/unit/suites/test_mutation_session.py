"""Sessions of mutants: what becomes of a mutant that is caught, hangs, crashes, survives or does not compile."""

from pathlib import Path

import pytest

from reports import Status
from reports.options import Exit
from reports.records.mutant_result import SUFFIX, append_line, read_mutation
from suites.cells import catalogue
from suites.cells.selection import Selection, SelectionError
from suites.mutation.fault import Fault
from suites.mutation.kernel_functions import source_of
from suites.mutation.mutated import Mutant
from suites.ops import operators
from suites.sessions.commands.command_line import main
from suites.sessions.mutation_session import Plan, mutate

LINE = "        out[i] = zero if value <= zero else value"
"""The line of the Numba kernel of relu that does the work."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path / "runs"))
    yield tmp_path
    catalogue.use([])


def changed(name, text):
    """A mutant of the Numba kernel of relu with another line."""
    operators()
    source = source_of("suites.ops.relu")
    start = source.index(LINE)
    fault = Fault("statement", source.count("\n", 0, start) + 1, start, start + len(LINE), text, LINE.strip(), name)
    return Mutant("suites.ops.relu", fault, (("relu", "numba"),), "numba")


CHANGES = {
    "wrong": "        out[i] = x[i]",
    "hanging": "        while x[i] == x[i] or out[i] != 0:\n            out[i] = 1",
    "crashing": "        out[i + 1_000_000_000_000] = x[i]",
    "uncompilable": "        out[i] = nothing_of_this_name",
    "equal": "        out[i] = (zero if value <= zero else value)",
    "unnoticed": "        out[i] = zero if value <= zero else (value if x.size != 1_234_567 else zero)",
}


def test_each_way_that_a_mutant_can_end(monkeypatch):
    mutants = [changed(name, text) for name, text in CHANGES.items()]
    monkeypatch.setattr("suites.sessions.mutation_session.mutants", lambda *_: mutants)
    shown = []
    path = mutate(
        Plan(selection=Selection(), jobs=2, limit_s=4.0), lambda done, count, result: shown.append((done, count))
    )
    found = read_mutation(path)
    assert found.is_complete
    assert shown == [(number, len(mutants)) for number in range(1, len(mutants) + 1)]
    results = {result.name.rpartition(":")[2]: result for result in found.results.values()}
    assert {name: result.outcome for name, result in results.items()} == {
        "wrong": "caught",
        "hanging": "caught",
        "crashing": "caught",
        "uncompilable": "invalid",
        "equal": "same code",
        "unnoticed": "same results",
    }
    assert results["wrong"].status is Status.WRONG_VALUE
    assert results["wrong"].check == "eager"
    assert results["hanging"].status is Status.TIMEOUT
    assert results["crashing"].status is Status.CRASHED
    assert "SIGSEGV" in str(results["crashing"].reason)
    assert results["unnoticed"].inputs > 50
    assert results["unnoticed"].diff.splitlines() == [f"-{LINE}", f"+{CHANGES['unnoticed']}"]


def test_a_cell_that_the_right_kernel_fails_proves_nothing(monkeypatch, tmp_path):
    """A check that always fails is not counted: the mutant is not caught by it."""
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / "test_grumpy.py").write_text(
        "from suites.cells.tables.calls import KERNELS\n"
        "from suites.checks.register import check\n\n\n"
        "@check('grumpy', sees='everything', cells=KERNELS, order=1)\n"
        "def test_grumpy(case):\n"
        "    raise AssertionError('always')\n"
    )
    monkeypatch.setenv("KERNEL_BRIDGE_CHECKS", str(checks))
    monkeypatch.setattr("suites.sessions.mutation_session.mutants", lambda *_: [changed("wrong", CHANGES["wrong"])])
    path = mutate(Plan(selection=Selection()), lambda *_: None)
    (result,) = read_mutation(path).results.values()
    assert (result.outcome, result.check) == ("caught", "eager")


def test_a_session_goes_on_where_it_ended(monkeypatch, capsys):
    arguments = [
        "mutate",
        "--operator",
        "relu",
        "--backend",
        "numba",
        "--sample",
        "2",
        "--only",
        ":index:",
        "--jobs",
        "1",
    ]
    assert main([*arguments, "--require", "0"]) == Exit.FINE
    shown = capsys.readouterr()
    path = Path(next(word for word in shown.err.split() if word.endswith(SUFFIX)))
    whole = read_mutation(path)
    assert len(whole.results) == 2
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert main(["mutate", "--show", str(path)]) == Exit.COULD_NOT_RUN
    shown = capsys.readouterr()
    assert "INCOMPLETE" in shown.out
    assert f"--resume {path}" in shown.err
    assert main([*arguments, "--require", "0", "--resume", str(path)]) == Exit.FINE
    assert set(read_mutation(path).results) == set(whole.results)
    with pytest.raises(SelectionError, match="is complete"):
        mutate(Plan(selection=Selection(operators=("relu",)), resume=str(path)), lambda *_: None)
    header = whole.header
    other = Path(f"other{SUFFIX}")
    append_line(other, header.__class__(run=header.run, made=1, chosen=["another"]))
    assert main([*arguments, "--resume", str(other)]) == Exit.COULD_NOT_RUN
    assert "chose other mutants" in capsys.readouterr().err


def test_mistakes_are_one_line(capsys):
    assert main(["mutate", "--operator", "rellu"]) == Exit.COULD_NOT_RUN
    assert "Did you mean 'relu'?" in capsys.readouterr().err
    assert main(["mutate", "--operator", "relu", "--only", "nothing like it"]) == Exit.COULD_NOT_RUN
    assert "no mutant fits --operator relu" in capsys.readouterr().err
    assert main(["mutate", "--show", "none.ndjson"]) == Exit.COULD_NOT_RUN
    assert "none.ndjson: cannot be read" in capsys.readouterr().err
