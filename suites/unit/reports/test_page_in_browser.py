"""The page in a real Chromium without a window: it draws, filters, sorts and opens cells, and loads nothing."""

import itertools

import pytest

from suites.unit.reports.builders import GPU
from suites.unit.reports.page_runs import (
    call_records,
    checked_records,
    mutant_records,
    nasty_records,
    nasty_run,
    page_of_runs,
    run_of,
    saved,
    timed_records,
)
from suites.unit.reports.page_visit import Visit

PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1440, "height": 900}


@pytest.fixture(scope="module")
def pages(tmp_path_factory, chromium):
    """The file of each page; none is made without a browser."""
    folder = tmp_path_factory.mktemp("pages")

    def written(name, *records):
        runs = [saved(folder / f"{name}{place}.jsonl", own) for place, own in enumerate(records)]
        path = folder / f"{name}.html"
        path.write_text(page_of_runs(*runs), encoding="utf-8")
        return path

    gpu = timed_records(run_of("times", 4, device=GPU, run_id="20261121T000000-gpu0"))
    return {
        "all": written(
            "all", *(timed_records(run_of("times", number), slower=1 + number) for number in range(3)),
            checked_records(run_of("checks")), mutant_records(run_of("mutants")), call_records(run_of("calls")), gpu,
        ),
        "checks": written("checks", checked_records(run_of("checks"))),
        "calls": written("calls", call_records(run_of("calls"))),
        "mutants": written("mutants", mutant_records(run_of("mutants"))),
        "nasty": written("nasty", nasty_records(nasty_run())),
    }  # fmt: skip


@pytest.fixture
def visit(chromium, pages):
    opened = []

    def open_page(name, viewport=DESKTOP, scheme="light", fragment=""):
        opened.append(Visit(chromium, pages[name], viewport, scheme, fragment))
        return opened[-1]

    yield open_page
    for one in opened:
        one.close()


@pytest.mark.parametrize(
    ("name", "viewport", "scheme"),
    [
        *(("all", viewport, scheme) for viewport in (PHONE, DESKTOP) for scheme in ("light", "dark")),
        *((name, PHONE, "dark") for name in ("checks", "calls", "mutants", "nasty")),
        ("nasty", DESKTOP, "light"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value["width"]),
)
def test_a_page_draws_its_charts_and_fits_the_screen(visit, tmp_path, name, viewport, scheme):
    one = visit(name, viewport, scheme)
    one.draw_all()
    assert one.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    background = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)")
    picture = tmp_path / f"{name}-{viewport['width']}-{scheme}.png"
    one.page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 10_000
    for plot in one.page.query_selector_all("figure .plot svg"):
        assert plot.bounding_box()["width"] <= viewport["width"]


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_filters_search_and_sort_change_the_table_and_the_address(visit, viewport):
    one = visit("all", viewport)
    page = one.page
    page.select_option('select[name="kind"]', "timed")
    page.select_option('select[name="operator"]', "softmax")
    page.select_option('select[name="dtype"]', "f64")
    assert one.rows().count() == 18  # three backends, three sizes, two machines
    assert set(one.column("operator")) == {"softmax"}
    page.fill('input[name="search"]', "warp passed 1,024")
    one.wait("document.querySelectorAll('#cell-table tbody tr').length === 2")
    assert set(one.column("backend")) == {"warp"}
    page.click("#filters button")
    assert not page.is_visible("#filters button")
    page.select_option('select[name="kind"]', "timed")
    page.click('#cell-table th[data-name="time"] button')
    head = page.locator('#cell-table th[data-name="time"]')
    assert head.get_attribute("aria-sort") == "ascending"
    assert one.column("time")[0] == "726 ns"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert one.column("time")[0].endswith("ms")
    address = page.url
    assert "sort=time" in address
    assert "kind=timed" in address
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.locator('select[name="kind"]').input_value() == "timed"
    assert one.column("time")[0].endswith("ms")


def test_filters_without_a_cell_say_so(visit):
    one = visit("checks")
    one.page.fill('input[name="search"]', "there is no such cell")
    one.wait("document.querySelector('#found').textContent.startsWith('No cell')")
    assert one.rows().count() == 0


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_cell_opens_with_its_samples_and_its_command(visit, tmp_path, viewport):
    one = visit("all", viewport)
    page = one.page
    page.select_option('select[name="backend"]', "numba")
    page.select_option('select[name="kind"]', "timed")
    button = page.locator("#cell-table tbody tr .open").first
    button.focus()
    page.keyboard.press("Enter")
    sheet = page.locator("dialog[open]")
    sheet.locator(".plot[data-drawn] svg").wait_for()
    assert sheet.locator("h2").inner_text() == "add \N{MIDDLE DOT} numba \N{MIDDLE DOT} f32"
    assert sheet.locator(".command pre").inner_text().startswith("kernel-bridge bench --operator add --backend numba")
    assert sheet.locator("table tbody tr").count() == 5  # a row for each process
    for summary in sheet.locator("details summary").all():
        summary.click()
    said = sheet.inner_text()
    for expected in ("jax", "0.10.2", "Xeon", "0123456789abcdef", "matmul" if "matmul" in said else "x64"):
        assert expected in said
    page.screenshot(path=tmp_path / f"cell-{viewport['width']}.png")
    assert "cell=" in page.url
    box = sheet.bounding_box()
    assert box["width"] <= viewport["width"]
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.wait_for_function("() => !location.hash.includes('cell=')")  # the event of closing comes a moment later
    assert page.evaluate("document.activeElement.className") == "open"


def test_a_failed_and_a_skipped_cell_open_with_their_reason(visit):
    one = visit("checks", fragment="#outcome=failed")
    assert one.column("status") == ["WRONG_VALUE"]
    one.rows().first.click()
    assert one.page.locator("dialog .reason").inner_text() == "got 1.0, truth 2.0"
    assert "-k compiled" in one.page.locator("dialog .command pre").inner_text()
    one.page.locator("dialog button", has_text="Close").click()
    one.page.select_option('select[name="outcome"]', "skipped")
    one.rows().first.click()
    assert one.page.locator("dialog .reason").inner_text() == "warp is not installed"


def test_a_link_of_the_summary_leads_to_the_cells_that_it_counts(visit):
    one = visit("checks")
    one.page.locator(".tile.bad a").click()
    assert one.column("status") == ["WRONG_VALUE"]
    assert one.page.evaluate("document.activeElement.id") == "head-cells"


def test_a_heat_map_switches_its_number_and_leads_to_its_cells(visit):
    one = visit("all")
    page = one.page
    group = page.locator("[data-switch]").first
    shown = page.locator("[data-panel]:visible")
    before = shown.first.inner_text()
    group.locator("label", has_text="Error budget").click()
    assert shown.first.inner_text() != before
    shown.first.locator("td a").first.click()
    assert set(one.column("operator")) == {"add"}
    assert set(one.column("backend")) == {"jnp"}


def test_the_theme_switch_draws_charts_again_and_stays_in_the_address(visit):
    one = visit("calls")
    one.draw_all()
    page = one.page
    page.click("#theme")
    page.wait_for_selector(".plot[data-drawn=dark]")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    assert "theme=dark" in page.url


def test_the_numbers_of_a_chart_open_as_a_table(visit):
    one = visit("calls")
    numbers = one.page.locator("figure .numbers").first
    numbers.locator("summary").click()
    numbers.locator("tbody tr").nth(1).wait_for()
    assert numbers.locator("tbody tr").count() == 2
    assert "native handler, Numba" in numbers.inner_text()


def test_the_keyboard_reaches_the_content_the_filters_and_a_cell(visit):
    one = visit("checks")
    page = one.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.name || document.activeElement.className"))
        visible = page.evaluate(
            "(() => { const e = document.activeElement; return e === document.body || e.matches('.switch input')"
            " || getComputedStyle(e).outlineStyle !== 'none'; })()"
        )
        assert visible, page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
    assert {"search", "operator", "open", "scroll"} <= reached


def test_a_screen_reader_finds_landmarks_headings_and_labels(visit):
    one = visit("all")
    one.draw_all()
    page = one.page
    assert page.locator("main, nav.menu, header.top, footer").count() == 4
    levels = page.eval_on_selector_all("h1, h2, h3, h4", "all => all.map(each => Number(each.tagName[1]))")
    assert levels.count(1) == 1
    steps = [after - before for before, after in itertools.pairwise(levels)]
    assert max(steps) <= 2
    unlabelled = page.eval_on_selector_all(
        "input, select, button, [role=region]",
        "all => all.filter(e => !(e.labels?.length || e.ariaLabel || e.textContent.trim() || e.title)).length",
    )
    assert unlabelled == 0
    assert page.locator("table").count() == page.locator("table:has(th)").count()
    described = page.eval_on_selector_all(
        "figure svg", "all => all.filter(e => e.querySelector('[role=graphics-symbol][aria-label]')).length"
    )
    assert described == page.locator("figure svg.marks").count() > 0


def test_hostile_names_are_shown_and_run_nothing(visit):
    one = visit("nasty", fragment="#cell=1")
    one.page.wait_for_selector("dialog[open]")
    assert "</script><script>alert(1)</script>" in one.page.locator("dialog h2").inner_text()
    one.page.keyboard.press("Escape")
    assert one.page.evaluate("document.querySelectorAll('main img, main iframe').length") == 0
    for number in range(6):
        one.page.evaluate(f"location.hash = 'cell={number * 3}'")
        one.page.wait_for_selector("dialog[open]")
    one.page.evaluate("location.hash = 'operator=%3Cscript%3E&sort=__proto__&page=-5&cell=1e9&at=%22%3E'")


def test_paper_is_light_and_has_the_tables_and_no_buttons(visit, tmp_path):
    one = visit("all", scheme="dark", fragment="#theme=dark")
    one.draw_all()
    one.page.emulate_media(media="print")
    assert one.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert one.page.evaluate("getComputedStyle(document.body).color") == "rgb(31, 35, 40)"
    for hidden in (".menu", ".tools", "#filters", "#pager"):
        assert not one.page.locator(hidden).is_visible()
    assert one.page.locator("#cell-table").is_visible()
    paper = tmp_path / "page.pdf"
    one.page.pdf(path=paper, format="A4")
    assert paper.read_bytes().startswith(b"%PDF")


def test_the_print_button_draws_every_chart_in_light_first(visit):
    one = visit("all", scheme="dark")
    page = one.page
    page.evaluate(
        "window.print = () => { window.printed = [...document.querySelectorAll('main figure .plot')]"
        ".filter(each => each.clientWidth).map(each => each.dataset.drawn); }"
    )
    page.click("#print")
    one.wait("window.printed !== undefined")
    printed = page.evaluate("window.printed")
    assert len(printed) > 5
    assert set(printed) == {"light"}
    page.locator("#time-charts").scroll_into_view_if_needed()
    page.wait_for_selector("#time-charts .plot[data-drawn=dark]")
