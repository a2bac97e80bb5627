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
from suites.mutation.mutated import SourceMutant
from suites.ops import operators
from suites.sessions.commands.command_line import main
from suites.sessions.mutation_session import MutationPlan, mutate
from suites.unit.processes import output

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
    return SourceMutant("suites.ops.relu", fault, (("relu", "numba"),), "numba")


CHANGES = {
    "wrong": "        out[i] = x[i]",
    "hanging": "        while x[i] == x[i] or out[i] != 0:\n            out[i] = 1",
    "crashing": "        out[i + 1_000_000_000_000] = x[i]",
    "uncompilable": "        out[i] = nothing_of_this_name",
    "unnoticed": "        out[i] = zero if value <= zero else (value if x.size != 1_234_567 else zero)",
}


def test_each_way_that_a_mutant_can_end(monkeypatch):
    mutants = [changed(name, text) for name, text in CHANGES.items()]
    monkeypatch.setattr("suites.sessions.mutation_session.mutants", lambda *_: mutants)
    shown = []
    path = mutate(
        MutationPlan(selection=Selection(profile="quick"), jobs=2, limit_s=3.0),
        lambda done, count, result: shown.append((done, count)),
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
        "unnoticed": "same results",
    }
    assert results["wrong"].status is Status.WRONG_VALUE
    assert results["wrong"].check == "eager"
    assert results["hanging"].status is Status.TIMEOUT
    assert results["crashing"].status is Status.CRASHED
    assert "SIGSEGV" in str(results["crashing"].reason)
    assert results["unnoticed"].inputs > 10
    assert results["unnoticed"].reason is None, "a check fails for the right kernel too"
    assert results["unnoticed"].diff.splitlines() == [f"-{LINE}", f"+{CHANGES['unnoticed']}"]


def test_the_full_profile_tries_as_much_as_a_session_of_it(monkeypatch):
    """The cell is in the quick profile too, but tries fewer sizes there, and the fault is at none of them."""
    text = "        out[i] = zero if value <= zero or x.size > 3_000_000 else value"
    monkeypatch.setattr("suites.sessions.mutation_session.mutants", lambda *_: [changed("vast", text)])
    path = mutate(MutationPlan(selection=Selection(profile="full")), lambda *_: None)
    (result,) = read_mutation(path).results.values()
    assert (result.outcome, result.check, result.cell) == ("caught", "large", "relu-numba-f32-100003-cpu")


def test_a_cell_that_the_right_kernel_passes_in_the_quick_profile_alone_proves_nothing_in_the_full_one(
    monkeypatch, tmp_path
):
    """The first mutant shows that the cell is sound in the quick profile. In the full one it ends any process."""
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / "test_growing.py").write_text(
        "import os\n"
        "from suites.cells.tables.calls import KERNELS\n"
        "from suites.checks.drawn.depth import depth\n"
        "from suites.checks.judging.cell_verdict import judge_kernel\n"
        "from suites.checks.register import check\n\n\n"
        "@check('growing', sees='all', cells=KERNELS, order=1)\n"
        "def test_growing(case, evidence):\n"
        "    if depth():\n        os._exit(1)\n"
        "    evidence.require(judge_kernel(case.operator, case.backend, case.inputs(), case.device))\n"
    )
    monkeypatch.setenv("KERNEL_BRIDGE_CHECKS", str(checks))
    given = [changed(name, CHANGES[name]) for name in ("wrong", "unnoticed")]
    monkeypatch.setattr("suites.sessions.mutation_session.mutants", lambda *_: given)
    path = mutate(MutationPlan(selection=Selection(profile="full"), jobs=1), lambda *_: None)
    wrong, unnoticed = read_mutation(path).results.values()
    assert (wrong.outcome, wrong.check) == ("caught", "growing")
    assert unnoticed.outcome == "undecided"


def test_a_check_that_the_right_kernel_does_not_pass_proves_nothing(monkeypatch, tmp_path):
    """Neither a check that always fails nor one that never decides counts; the checks after it still see the mutant."""
    checks = tmp_path / "checks"
    checks.mkdir()
    head = "from suites.cells.tables.calls import KERNELS\nfrom suites.checks.register import check\n\n\n"
    fails = "@check('fails', sees='all', cells=KERNELS, order=1)\ndef test_fails(case):\n    raise AssertionError\n"
    (checks / "test_fails.py").write_text(head + fails)
    unsure = "@check('unsure', sees='all', cells=KERNELS, order=2)\ndef test_unsure(case, a_fixture):\n    pass\n"
    (checks / "test_unsure.py").write_text(head + unsure)
    monkeypatch.setenv("KERNEL_BRIDGE_CHECKS", str(checks))
    monkeypatch.setattr("suites.sessions.mutation_session.mutants", lambda *_: [changed("wrong", CHANGES["wrong"])])
    path = mutate(MutationPlan(selection=Selection()), lambda *_: None)
    (result,) = read_mutation(path).results.values()
    assert (result.outcome, result.check, result.cell) == ("caught", "eager", "relu-numba-f32-2100-cpu")
    assert result.cells == 3


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
        mutate(MutationPlan(selection=Selection(operators=("relu",)), resume=str(path)), lambda *_: None)
    header = whole.header
    other = Path(f"other{SUFFIX}")
    append_line(other, header.__class__(run=header.run, made=1, chosen=["another"]))
    assert main([*arguments, "--resume", str(other)]) == Exit.COULD_NOT_RUN
    assert "chose other mutants" in capsys.readouterr().err


def test_the_process_that_others_are_forked_from_has_no_threads_and_no_backends():
    """A forked process has neither: an import that starts one, such as in a new check, would break every mutant."""
    program = (
        "import os; import suites.sessions.mutation_warmup; "
        "from jax._src.xla_bridge import backends_are_initialized as started; "
        "print(len(os.listdir('/proc/self/task')), started())"
    )
    assert output("-c", program, JAX_PLATFORMS="cpu", OPENBLAS_NUM_THREADS="1") == "1 False"


def test_mistakes_are_one_line(capsys):
    assert main(["mutate", "--operator", "rellu"]) == Exit.COULD_NOT_RUN
    assert "Did you mean 'relu'?" in capsys.readouterr().err
    assert main(["mutate", "--operator", "relu", "--only", "nothing like it"]) == Exit.COULD_NOT_RUN
    assert "no mutant fits --operator relu" in capsys.readouterr().err
    assert main(["mutate", "--show", "none.ndjson"]) == Exit.COULD_NOT_RUN
    assert "none.ndjson: cannot be read" in capsys.readouterr().err
