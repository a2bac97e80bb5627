"""Contributing says which file to touch for an operator, a backend, a check or a column: this does it, in a copy."""

import csv
import io
import json
import re
import shutil

import pytest
from msgspec import structs

from reports.records.codec import encode
from suites.unit.processes import output
from suites.unit.reports.builders import make_pair, whole
from suites.unit.structure.house import PACKAGES, PROJECT
from suites.unit.suites.test_toy_backend import LANGUAGE

PAGE = PROJECT / "docs" / "contributing.md"
OPERATOR = '''
"""Negates: ``out[i] = -x[i]``."""

import numba

from suites import Operator


@numba.njit
def negate(x, out):
    for i in range(x.size):
        out[i] = -x[i]


OPERATOR = Operator(name="negate", reference=lambda x: -x, kernels={"numba": negate, "formula": "-x"})
'''


@pytest.fixture
def copy(tmp_path):
    """A copy of the packages, in which a contributor writes."""
    folder = tmp_path / "contribution"
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "unit", "published", "tutorials")
        shutil.copytree(PROJECT / package, folder / package, ignore=ignored)
    return folder


def promised(what):
    """The paths that the page names for a contribution."""
    page = PAGE.read_text(encoding="utf-8")
    (item,) = re.findall(rf"^- To add {what}, (.*?)(?=^- |\n\n)", page, re.MULTILINE | re.DOTALL)
    return re.findall(r"`([a-z_/]+/(?:[a-z_*]+\.py)?)`", item)


CHECK = '''
"""Checks that a kernel gives the same result inside ``jax.checkpoint``."""

from typing import Any

import jax

from suites.cells.case import Case
from suites.cells.tables import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check("remat", sees="a call that is computed again", cells=TRANSFORMED_KERNELS)
def test_a_checkpointed_call_is_right(case: Case, evidence: Evidence) -> None:
    inputs = case.inputs()
    with precision(case.dtype), jax.default_device(case.device):
        results: Any = jax.jit(jax.checkpoint(case.operator.build(case.backend, inputs)))(*inputs)
    evidence.require(judge_results(case.operator, inputs, results))
'''


def test_an_operator_and_a_check_are_a_file_each_a_backend_one_line_more(copy):
    assert promised("an operator")[0] == "suites/ops/"
    assert "| `suites/checks/` | checks cells, one file for each check |" in PAGE.read_text(encoding="utf-8")
    assert promised("a backend")[:2] == ["suites/backends/", "suites/backends/__init__.py"]
    (copy / "suites/ops/negate.py").write_text(OPERATOR, encoding="utf-8")
    (copy / "suites/checks/test_remat.py").write_text(CHECK, encoding="utf-8")
    (copy / "suites/backends/formula.py").write_text(LANGUAGE, encoding="utf-8")
    with (copy / "suites/backends/__init__.py").open("a", encoding="utf-8") as face:
        face.write("from suites.backends import formula as formula\n")
    (elsewhere := copy / "elsewhere").mkdir()
    command = ["validate", "--operator", "negate", "--profile", "quick", "--jobs", "1", "--format", "json", "--", "-k"]
    shown = output("-m", "suites", *command, "remat or compiled", cwd=elsewhere, PYTHONPATH=str(copy))
    rows = json.loads(shown)
    statuses = {(row["backend"], row["mode"]): row["status"] for row in rows if row["dtype"] == "float32"}
    assert statuses["numba", "remat"] == statuses["formula", "compiled"] == "PASSED", statuses


FIELD = ("    stop: str\n", "    stop: str\n    energy_nj: float | None = None\n")
FACT = (
    '    "Times": (\n',
    '    "Times": (\n'
    '        Fact("energy_nj", "energy of a call", "timing.energy_nj", _NUM, "nJ",\n'
    '             Shown("energy", lambda r: Text(f"{r.timing.energy_nj:.1f} nJ"), "energy: of a call")),\n',
)
ENERGY = (12.5, 7.25)


CHANGES = {"reports/records/measurements.py": FIELD, "reports/pages/columns.py": FACT}
"""All that it takes, by file."""
SHOW = """
from reports import load_run
from reports.pages.columns import documentation
from reports.pages.run_page import page_of
from reports.render.frame_files import frame_csv, frame_json
from reports.render.terminal import render
page = page_of(load_run('run.jsonl').records)
print(render(page.tables), documentation(), frame_csv(page.frame), frame_json(page.frame), sep='\\n=====\\n')
"""


def test_a_column_is_its_fact_and_its_description(copy):
    """Every format and the documentation have the new column."""
    folder, description = promised("a column")
    assert [path for path in CHANGES if path.startswith(folder)] + [description] == [*CHANGES]
    for path, (old, new) in CHANGES.items():
        text = (copy / path).read_text(encoding="utf-8")
        assert text.count(old) == 1
        (copy / path).write_text(text.replace(old, new), encoding="utf-8")
    records = make_pair(1000.0, 500.0)
    lines = [encode(structs.replace(record, index=index)) for index, record in enumerate(records)]
    facts = [b'"energy_nj":%g,"stop":' % energy for energy in ENERGY]
    lines = [line.replace(b'"stop":', fact) for line, fact in zip(lines, facts, strict=True)]
    (copy / "run.jsonl").write_bytes(whole(records, lines))
    page, documented, as_csv, as_json = output("-c", SHOW, cwd=copy).split("\n=====\n")
    assert "12.5 nJ" in page
    assert "energy: of a call" in page
    assert "| `energy_nj` | number | nJ | energy of a call |" in documented
    assert tuple(float(row["energy_nj"]) for row in csv.DictReader(io.StringIO(as_csv))) == ENERGY
    assert tuple(row["energy_nj"] for row in json.loads(as_json)) == ENERGY
