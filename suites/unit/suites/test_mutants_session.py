"""The session of broken kernels fails if one survives, and says how to go on if it is not whole."""

import re
from pathlib import Path

import pytest

from reports import CellResult, RunWriter, Status
from reports.options import Exit
from suites.processes.session_end import SessionEnd
from suites.unit import processes
from suites.unit.reports.builders import make_cell, make_record, make_run, whole
from suites.validate import broken_kernels as script

WRONG, RIGHT = Status.WRONG_VALUE, Status.PASSED
RUN = make_run(selection={"source": ["suites.mutants"]})


def recorded(folder: Path, statuses: dict[str, Status]) -> Path:
    """A whole run in which checks of ``kept_total``, which ``compiled`` must catch, ended like this."""
    cells = {mode: make_cell(operator="kept_total", mode=mode) for mode in statuses}
    path = folder / "run.jsonl"
    path.write_bytes(whole([make_record(cells[mode], None, RUN, status=status) for mode, status in statuses.items()]))
    return path


@pytest.mark.parametrize(
    ("statuses", "code", "said"),
    [
        ({"compiled": WRONG, "sizes": RIGHT}, Exit.FINE, ""),
        ({"compiled": RIGHT, "sizes": RIGHT}, Exit.WRONG, "survived: kept_total"),
        ({"compiled": RIGHT, "sizes": WRONG}, Exit.WRONG, "kept_total was not caught by compiled, which must catch it"),
        ({"sizes": WRONG}, Exit.FINE, ""),  # --backend or -k left the other one out
    ],
)
def test_a_run_is_fine_if_the_check_that_must_catch_a_kernel_does(tmp_path, monkeypatch, capsys, statuses, code, said):
    path = recorded(tmp_path, statuses)
    monkeypatch.setattr(script, "validate", lambda *_, **__: SessionEnd(path=path))
    assert script.main([]) == code
    assert capsys.readouterr().err.strip() == said


def test_an_interrupted_run_is_no_survivor_and_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    path, cell = tmp_path / "part.jsonl", make_cell(operator="kept_total", mode="sizes")
    with RunWriter(path, RUN) as writer:
        writer.begin([cell, make_cell(operator="kept_total", mode="compiled")])
        writer.append(CellResult(cell=cell, shapes=[[9]], dtypes=["float32"], seed=0, status=RIGHT))
    monkeypatch.setattr(script, "validate", lambda *_, **__: SessionEnd(path=path, interrupted=True))
    assert script.main([]) == Exit.COULD_NOT_RUN
    said = capsys.readouterr().err
    assert "INCOMPLETE: 1 of 2 cells are missing" in said
    assert "nox -s mutants -- --resume part" in said
    assert "survived" not in said


def test_the_session_prints_what_each_check_catches(tmp_path):
    chosen = ("--operator", "unwritten_tail", "--operator", "at_4096", "--runs", tmp_path, "-n", "1")
    done = processes.run("-m", "suites.validate.broken_kernels", *chosen, "--", "-k", "compiled")
    assert done.returncode == Exit.WRONG, done.stdout + done.stderr
    assert re.search(r"unwritten_tail +numba +compiled", done.stdout)
    assert "2 broken kernels, 1 caught" in done.stdout
    assert "survived: at_4096" in done.stderr
