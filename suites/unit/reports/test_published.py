"""The published runs, which older versions wrote."""

import pytest

from reports import read_run
from reports.pages.run_page import page_of
from suites.unit.docs.pages import PROJECT

RUNS = sorted((PROJECT / "reports" / "published").glob("*/*.jsonl.gz"))


@pytest.mark.parametrize("file", RUNS, ids=lambda file: f"{file.parent.name}-{file.name.partition('.')[0]}")
def test_a_published_run_is_readable_and_has_a_page(file):
    records = read_run(file)
    assert {record.run.run_id for record in records} == {file.name.partition(".")[0]}
    page = page_of(records)
    assert page.tables
    assert len(page.frame) == len({(record.run.run_id, record.cell.key) for record in records})


def test_there_are_published_runs():
    assert RUNS
