"""The page in a browser: on a phone and on a desktop, bright and dark, with hostile names; nothing is lost or loaded.

The browser is the Chromium on the path, or the one that ``playwright install chromium`` downloads.
"""

import shutil
from pathlib import Path

import pytest

from reports import Status
from suites.unit.reports.builders import make_cell, make_record
from suites.unit.reports.page_runs import (
    checked_records,
    nasty_records,
    nasty_run,
    page_of_runs,
    run_of,
    saved,
    timed_records,
)


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: install the group `browser`")
    pytest.importorskip("vl_convert", reason="no vl-convert-python: install the extra `report`")
    with playwright.sync_playwright() as driver:
        path = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), driver.chromium.executable_path)
        if not Path(path).exists():
            pytest.skip("no Chromium: install it (apt-get install chromium, or playwright install chromium)")
        # In a container the user is root, for whom Chromium has no sandbox. The page is our own.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    runs = [saved(folder / f"{number}.jsonl", records) for number, records in enumerate((
        timed_records(run_of("times", 1)), timed_records(run_of("times", 2), slower=3),
        checked_records(run_of("checks")), nasty_records(nasty_run()),
    ))]  # fmt: skip
    path = folder / "page.html"
    path.write_text(page_of_runs(*runs), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_within_reach_and_nothing_is_loaded_or_run(chromium, page, width, scheme):
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    shown, faults = context.new_page(), []
    shown.on("request", lambda request: faults.append(request.url) if request.url != page.as_uri() else None)
    shown.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    shown.on("dialog", lambda dialog: faults.append(dialog.message))
    shown.goto(page.as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    # What is wider than the screen scrolls in a box of its own.
    lost = """all => all.filter(each => each.getBoundingClientRect().right > innerWidth + 1
        && !each.closest('.scroll, .plot, .menu, svg, .unseen, .skip')).map(each => each.outerHTML.slice(0, 99))"""
    assert shown.eval_on_selector_all("body *", lost) == []
    assert shown.locator(".tile.bad").count() >= 2
    context.close()
    assert faults == []


@pytest.fixture(scope="module")
def wide_page(tmp_path_factory):
    """A page of sixteen backends with long names, one of which is wrong."""
    folder, run = tmp_path_factory.mktemp("wide"), run_of("times")
    names = ["jnp", *(f"numba_cuda_variant_{number}" for number in range(16))]
    records = [make_record(make_cell(operator=operator, backend=name, size=size), 1e3 + place, run)
               for operator in ("scan", "attention_forward_causal") for size in (1024, 4096)
               for place, name in enumerate(names)]  # fmt: skip
    records.append(make_record(make_cell(operator="broken"), None, run, status=Status.WRONG_VALUE, reason="no"))
    path = folder / "page.html"
    path.write_text(page_of_runs(saved(folder / "a.jsonl", records)), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [400, 1280])
def test_sixteen_backends_and_all_charts_fit_without_a_scroll_bar(chromium, wide_page, width):
    shown = chromium.new_page(viewport={"width": width, "height": 900})
    shown.goto(wide_page.as_uri())
    boxes = "all => all.filter(each => each.offsetParent).map(each => each.scrollWidth - each.clientWidth)"
    assert max(shown.eval_on_selector_all(".scroll", boxes)) <= 1
    outside = """all => all.map(each => each.getBoundingClientRect())
        .filter(box => box.width && (box.left < 0 || box.right > innerWidth)).length"""
    texts = shown.eval_on_selector_all(".plot text", outside)
    assert texts == 0, "labels that are cut off"
    shown.close()
