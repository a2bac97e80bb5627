"""A new column is a change of two files: of the record that holds the fact, and of the definitions of columns."""

import csv
import io
import json
import shutil

import pytest
from msgspec import structs

from reports.records.codec import encode
from suites.unit.docs.pages import PROJECT
from suites.unit.processes import output
from suites.unit.reports.builders import make_pair, whole

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


def change(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A folder with a copy of `reports` that has one more column, and a run that has the fact."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PROJECT / "reports", folder / "reports", ignore=shutil.ignore_patterns("published", "__pycache__"))
    for path, change_of_file in CHANGES.items():
        change(folder / path, *change_of_file)
    records = make_pair(1000.0, 500.0)
    lines = [encode(structs.replace(record, index=index)) for index, record in enumerate(records)]
    lines = [
        line.replace(b'"stop":', b'"energy_nj":%g,"stop":' % energy) for line, energy in zip(lines, ENERGY, strict=True)
    ]
    (folder / "run.jsonl").write_bytes(whole(records, lines))
    return folder


def test_every_format_and_the_documentation_have_the_new_column(changed):
    code = (
        "from reports import load_run\n"
        "from reports.pages.columns import documentation\n"
        "from reports.pages.run_page import page_of\n"
        "from reports.render.frame_files import frame_csv, frame_json\n"
        "from reports.render.terminal import render\n"
        "page = page_of(load_run('run.jsonl').records)\n"
        "made = render(page.tables), documentation(), frame_csv(page.frame), frame_json(page.frame)\n"
        "print(*made, sep='\\n=====\\n')\n"
    )
    page, documented, as_csv, as_json = output("-c", code, cwd=changed).split("\n=====\n")
    assert "12.5 nJ" in page
    assert "energy: of a call" in page
    assert "| `energy_nj` | number | nJ | energy of a call |" in documented
    assert tuple(float(row["energy_nj"]) for row in csv.DictReader(io.StringIO(as_csv))) == ENERGY
    assert tuple(row["energy_nj"] for row in json.loads(as_json)) == ENERGY
