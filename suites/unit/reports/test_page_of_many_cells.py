"""The page with 5,000 cells opens within a second."""

import json

from suites.unit.reports.page_runs import many_records, page_of_runs, run_of, saved
from suites.unit.reports.page_visit import Visit

OPEN_AT_MOST_MS = 1000
"""From the start of the navigation until the cells can be filtered, sorted and opened."""


def test_a_page_of_5000_cells_opens_within_a_second(chromium, tmp_path, record_property):
    """The best of a few attempts: other work on the machine only ever adds to it."""
    path = tmp_path / "many.html"
    path.write_text(page_of_runs(saved(tmp_path / "run.jsonl", many_records(run_of("times"), 5000))), encoding="utf-8")
    ready = []
    for _ in range(5):
        one = Visit(chromium, path, {"width": 1440, "height": 900})
        found = one.page.evaluate("document.documentElement.dataset.readyMs")
        paint = one.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
        ready.append(max(float(found), paint))
        assert one.page.locator("#found").inner_text().startswith("5,000 cells")
        one.close()
    record_property("ready_ms", json.dumps(ready))
    assert min(ready) < OPEN_AT_MOST_MS, ready
