"""The command ``sanitize`` reads the tools' output, maps findings to cells, and says what it did not check."""

import stat
import sys

import msgspec
import pytest

from reports.options import Exit
from suites.cells.selection import Selection
from suites.commands.command_line import main
from suites.sanitize import cells as sanitized_cells
from suites.sanitize.command import sanitize
from suites.sanitize.output import MARK, read_output

BEGIN, END = "========= COMPUTE-SANITIZER", "========= ERROR SUMMARY: 0 errors"
ONE, OTHER = "add-cuda_raw-f32-2100-cuda", "relu-warp-f32-2100-cuda"


def cell(name, *lines, end=True):
    return [f'{MARK} begin "{name}"', *lines, *([f'{MARK} end "{name}"'] if end else [])]


INVALID = [
    "========= Invalid __global__ read of size 4 bytes",
    "=========     at void kernel<float>(const T1 *, const T1 *, T1 *, long long)+0x120",
    "=========     by thread (3,0,0) in block (8,0,0)",
    "=========",
]
UNINITIALIZED = ["========= Uninitialized __global__ memory read of size 4 bytes", *INVALID[1:]]
RACE = ["========= Error: Race reported between Write access at void kernel<float>(const T1 *)+0x1a0", *INVALID[1:]]
BARRIER = ["========= Barrier error detected. Divergent thread(s) in block.", *INVALID[1:]]


@pytest.mark.parametrize(
    ("tool", "lines", "what"),
    [
        ("memcheck", INVALID, "Invalid __global__ read of size 4 bytes"),
        ("initcheck", UNINITIALIZED, "Uninitialized __global__ memory read of size 4 bytes"),
        ("racecheck", RACE, "Race reported between Write access at void kernel<float>"),
        ("synccheck", BARRIER, "Barrier error detected. Divergent thread(s) in block."),
    ],
)
def test_a_finding_has_its_cell(tool, lines, what):
    report = read_output(tool, [BEGIN, *cell(OTHER), *cell(ONE, *lines, *lines), "========= ERROR SUMMARY: 2 errors"])
    (finding,) = report.findings
    assert finding.what.startswith(what)
    assert (finding.cell, finding.count) == (ONE, 2)
    assert report.done == [OTHER, ONE]
    assert report.incomplete is None


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "did not start"),
        ([BEGIN, END], "checked no cell"),
        ([BEGIN, *cell(ONE)], "ended without its summary, after 1 cells"),
        ([BEGIN, *cell(ONE), f'{MARK} begin "{OTHER}"', f'{MARK} failed "OSError: x"', END], f"{OTHER}: OSError: x"),
        ([BEGIN, *cell(ONE), "========= Internal Sanitizer Error", END], "'Internal Sanitizer Error'"),
        ([BEGIN, *cell(ONE), "========= Error: No attachable process found", END], "No attachable process"),
    ],
)
def test_what_was_not_checked_is_said(lines, why):
    assert why in read_output("memcheck", lines).incomplete


def test_harmless_lines_are_no_findings():
    lines = [BEGIN, *cell(ONE, "a line of the program", "========= Warning: Race reported between"), END]
    report = read_output("racecheck", lines)
    assert report.findings == []
    assert report.incomplete is None


STAND_IN = """#!{python}
import json, sys
tool = sys.argv[sys.argv.index("--tool") + 1]
selection = json.loads(sys.argv[-1])
with open({log!r}, "a") as log:
    log.write(json.dumps([tool, selection]) + "\\n")
print("\\n".join({output!r}[tool]))
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Makes an executable that prints what is given for each tool, in the place of compute-sanitizer."""

    def make(**output):
        path, log = tmp_path / "compute-sanitizer", tmp_path / "log"
        path.write_text(STAND_IN.format(python=sys.executable, log=str(log), output=output), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("COMPUTE_SANITIZER", str(path))
        return log

    return make


FINE = [BEGIN, *cell(ONE), END]
SELECTION = Selection(device="cuda", operators=("add",))


def test_the_exit_code_follows_the_findings_and_the_gaps(stand_in):
    log = stand_in(memcheck=FINE, racecheck=FINE, synccheck=[BEGIN], initcheck=[BEGIN, *cell(ONE, *UNINITIALIZED), END])
    assert sanitize(SELECTION, ["memcheck", "racecheck"], 60)[1:] == (Exit.FINE, [])
    tables, code, gaps = sanitize(SELECTION, ["memcheck", "initcheck", "synccheck"], 60)
    assert code is Exit.WRONG
    assert gaps == ["synccheck checked no cell"]
    assert [[text.text for text in row] for row in tables[0].rows] == [[ONE, "ok", "1", "-"]]
    assert "Uninitialized" in tables[1].rows[0][2].text
    assert sanitize(SELECTION, ["synccheck"], 60)[1] is Exit.COULD_NOT_RUN
    tool, selection = msgspec.json.decode(log.read_bytes().splitlines()[0])
    assert (tool, msgspec.convert(selection, Selection)) == ("memcheck", SELECTION)


@pytest.mark.usefixtures("folder")
def test_a_machine_without_a_gpu_is_refused(capsys, monkeypatch):
    monkeypatch.setattr("suites.cells.runnable.missing_device", lambda platform: f"no {platform} device: none here")
    assert main(["validate", "--sanitize"]) == Exit.COULD_NOT_RUN
    assert "no cuda device" in capsys.readouterr().err


def test_the_process_under_test_marks_its_cells(capsys):
    selection = Selection(device="cpu", operators=("sigmoid",), backends=("numba",))
    assert sanitized_cells.main(msgspec.json.encode(selection).decode()) == 0
    lines = capsys.readouterr().out.splitlines()
    report = read_output("memcheck", [BEGIN, *lines, END])
    assert report.done == ["sigmoid-numba-f32-2100-cpu"]
    assert report.incomplete is None
