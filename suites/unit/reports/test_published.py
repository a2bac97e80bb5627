"""The published runs, which older versions wrote: each is read, shown, and can be written again."""

import pytest

from reports import load_run
from reports.pages.run_page import page_of
from reports.records.codec import decode, encode
from reports.render.terminal import render
from suites.unit.docs.pages import PROJECT

RUNS = sorted((PROJECT / "reports" / "published").glob("*/*.jsonl.gz"))


@pytest.mark.parametrize("file", RUNS, ids=lambda file: f"{file.parent.name}-{file.name.partition('.')[0]}")
def test_a_published_run_is_readable_and_has_a_page(file):
    run = load_run(file)
    assert (run.problems, run.is_complete) == ([], True)
    assert run.run_id == file.name.partition(".")[0]
    page = page_of(run.records)
    assert len(page.frame) == len({record.cell.key for record in run.records})
    assert render(page.tables)
    assert decode(encode(run.records[0])) == run.records[0]


def test_there_are_published_runs():
    assert len(RUNS) >= 10
