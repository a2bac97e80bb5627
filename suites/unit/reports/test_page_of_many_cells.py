"""The page with 5,000 cells opens within a second."""

from suites.unit.reports.page_runs import many_records, page_of_runs, run_of, saved
from suites.unit.reports.page_visit import Visit

OPEN_AT_MOST_S = 1.0
"""From the start of the navigation until the cells can be filtered, sorted and opened."""


def processor_seconds(session):
    """The processor time of each process that shows a page."""
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return {each["id"]: each["cpuTime"] for each in found if each["type"] == "renderer"}


def test_a_page_of_5000_cells_opens_within_a_second(chromium, tmp_path):
    """The other tests run at the same time, so processor time is judged; the time by the wall clock is printed."""
    path = tmp_path / "many.html"
    path.write_text(page_of_runs(saved(tmp_path / "run.jsonl", many_records(run_of("times"), 5000))), encoding="utf-8")
    session = chromium.new_browser_cdp_session()
    taken = []
    for _ in range(3):
        before = processor_seconds(session)
        one = Visit(chromium, path, {"width": 1440, "height": 900})
        after = processor_seconds(session)
        # All pages of a context are in one process; the others belong to the contexts before.
        taken.append(max(seconds - before.get(number, 0) for number, seconds in after.items()))
        paint = one.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
        usable = one.page.evaluate("document.documentElement.dataset.readyMs")
        print(f"{taken[-1]:.3f} s of processor time; painted after {paint:.0f} ms, usable after {usable} ms")
        assert one.page.locator("#found").inner_text().startswith("5,000 cells")
        one.close()
    assert 0 < min(taken) < OPEN_AT_MOST_S, taken
