"""The page with 5,000 cells opens within a second."""

from suites.unit.reports.page_runs import many_records, page_of_runs, run_of, saved
from suites.unit.reports.page_visit import Visit

OPEN_AT_MOST_S = 1.0
"""From the start of the navigation until the cells can be filtered, sorted and opened."""


def processor_clock(visit):
    """Lets the browser count the time that the thread of the page runs, and not the time that others have the cores."""
    visit.clock = visit.context.new_cdp_session(visit.page)
    visit.clock.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
    visit.clock.send("Performance.enable")


def test_a_page_of_5000_cells_opens_within_a_second(chromium, tmp_path):
    """The other tests run at the same time, so processor time is judged; the time by the wall clock is printed."""
    path = tmp_path / "many.html"
    path.write_text(page_of_runs(saved(tmp_path / "run.jsonl", many_records(run_of("times"), 5000))), encoding="utf-8")
    ready = []
    for _ in range(3):
        one = Visit(chromium, path, {"width": 1440, "height": 900}, before=processor_clock)
        metrics = {each["name"]: each["value"] for each in one.clock.send("Performance.getMetrics")["metrics"]}
        paint = one.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
        usable = one.page.evaluate("document.documentElement.dataset.readyMs")
        print(
            f"{metrics['TaskDuration']:.3f} s of processor time; painted after {paint:.0f} ms, usable after {usable} ms"
        )
        ready.append(metrics["TaskDuration"])
        assert one.page.locator("#found").inner_text().startswith("5,000 cells")
        one.close()
    assert 0 < min(ready) < OPEN_AT_MOST_S, ready
