"""The page of recorded runs, without a browser: its sections, its data, its safety and its command."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from reports import Source, Status, load_run
from reports.errors import LibraryMissing
from reports.options import Exit
from reports.pages.compare import compare
from reports.statistics.verdict_codes import Verdict
from reports.web import charts
from reports.web.chart_theme import marks_of
from reports.web.charts import roof_points, spec_of
from reports.web.headlines import comparisons
from reports.web.run_choice import choose
from suites.commands.command_line import main
from suites.unit.reports.builders import GPU, make_cell, make_record
from suites.unit.reports.page_runs import (
    checked_records,
    nasty_records,
    nasty_run,
    page_of_runs,
    run_of,
    saved,
    timed_records,
)

MAKERS = {"times": timed_records, "checks": checked_records}


class Reader(HTMLParser):
    """Reads a page as a browser does: its elements and their attributes."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))


@pytest.fixture(autouse=True)
def library(monkeypatch):
    """Charts without the plotting library, which the tests in a browser have."""
    monkeypatch.setattr(charts, "svg_of", lambda spec: '<svg><text fill="#1f2328">drawn</text></svg>')


def run(tmp_path, kind, number=0, **changes):
    records = MAKERS[kind](run_of(kind, number, **changes))
    return saved(tmp_path / f"{kind}{number}.jsonl", records)


def sections(text):
    return re.findall(r'<section id="(\w+)"', text)


def test_a_page_says_first_what_is_right_then_what_is_fastest_then_what_changed(tmp_path):
    runs = [run(tmp_path, kind, number) for kind in MAKERS for number in range(3 if kind == "times" else 1)]
    text = page_of_runs(*runs)
    assert sections(text) == ["summary", "fastest", "changes", "verdicts", "times", "history", "runs"]
    assert "got 1.0, truth 2.0" in text
    assert text.count('<svg><text fill="var(--c1f2328, #1f2328)"') >= 5, "charts are drawn"


def tiles(text):
    """Look, value and words of each tile, by its title."""
    found = re.findall(
        r'class="tile (\w+)".*?tile-title">(.*?)<.*?tile-value">(.*?)<.*?tile-said">(.*?)<', text, re.DOTALL
    )
    return {title: (look, value, said) for look, title, value, said in found}


def checks(path, number, outcomes, **header):
    """A run with one check for each backend, which ends as `outcomes` says: a status, or None for passed."""
    own = run_of("checks", number, **header)
    records = [
        make_record(make_cell(backend=backend, mode="vmap"), None, own,
                    **({} if status is None else {"status": status, "reason": "because"}))
        for backend, status in outcomes.items()
    ]  # fmt: skip
    return saved(path / f"checks{number}.jsonl", records)


@pytest.mark.parametrize(
    ("later", "failed", "passed"),
    [
        ({"numba": None}, None, "2"),
        ({"numba": Status.OOM}, "1 failed", None),
        ({"numba": None, "warp": Status.CRASHED}, "1 failed", None),
    ],
)
def test_a_failure_is_red_until_that_very_cell_passes_again(tmp_path, later, failed, passed):
    """A newer run of other cells says nothing of it."""
    first = checks(tmp_path, 1, {"numba": Status.WRONG_VALUE, "warp": None})
    runs = [first, checks(tmp_path, 2, later, selection={"backend": [*later]})]
    look, value, said = tiles(page_of_runs(*runs))["Checks"]
    assert (look, value) == (("bad", failed) if failed else ("good", passed))
    assert "of 2 passed" in said
    assert "Failed: 1 cell" in page_of_runs(*runs) if failed else "Failed" not in page_of_runs(*runs)


def test_many_recorded_failures_are_not_hidden_by_a_small_green_run(tmp_path):
    broken = {f"backend_{number}": Status.COMPILE_ERROR for number in range(71)}
    text = page_of_runs(
        checks(tmp_path, 1, broken), checks(tmp_path, 2, {f"good_{number}": None for number in range(31)})
    )
    assert tiles(text)["Checks"][:2] == ("bad", "71 failed")
    assert text.count("does not compile") == text.count(">kernel-bridge validate --operator") == 71
    assert "66 more kernels failed" in text, "the first screen stays short"


def test_each_result_has_its_day_and_how_much_older_it_is(tmp_path):
    old = checks(tmp_path, 1, {"numba": None}, started="2026-11-17T19:00:00+00:00")
    new = checks(tmp_path, 2, {"warp": None}, selection={"backend": ["warp"]})
    (own,) = choose([(one, one.records) for one in (old, new)]).shown
    assert {row.cell.backend: own.age(row) for row in own.rows} == {"numba": "3 days older", "warp": ""}


def test_what_has_changed_is_said_by_cell(tmp_path):
    before = saved(tmp_path / "a.jsonl", timed_records(run_of("times", 1)))
    after = saved(tmp_path / "b.jsonl", [
        record for record in timed_records(run_of("times", 2, selection={"operator": ["add"]}), slower=2.0)
        if record.cell.operator == "add"
    ])  # fmt: skip
    (own,) = choose([(after, after.records), (before, before.records)]).shown
    assert len(own.rows) == len(before.records)
    assert {one.cell.operator for one in comparisons(own)} == {"add"}
    text = page_of_runs(before, after)
    assert tiles(text)["Slower or broken"][:2] == ("bad", "6")
    assert '<td class="left bad" data-label="verdict">SLOWER</td>' in text


def test_all_backends_of_a_page_have_different_colours_and_more_differ_in_shape():
    names = ["numba", "triton", *(f"backend_{number}" for number in range(88))]
    marks = marks_of(names[:24])
    assert len({marks[name][0] for name in names[:24]}) == 24
    assert len({marks_of(names)[name] for name in names}) == 90


def test_points_of_a_chart_that_would_cover_each_other_are_spread():
    rows = [{"label": "add", "backend": name, "ratio": ratio, "low": None, "high": None}
            for name, ratio in (("a", 1.0), ("b", 1.001), ("c", 4.0))]  # fmt: skip
    assert [row["y"] - row["centre"] for row in spec_of("forest", rows, 400)["data"]["values"]] == [-5, 5, -5]


@pytest.mark.parametrize(
    ("header", "title"),
    [
        ({"source": Source(commit="0123456789", dirty=True, project="spiking")}, "spiking 0123456+, 2026-11-20"),
        ({"source": Source(), "selection": {"source": ["ops/my_ops.py"]}}, "my_ops, 2026-11-20"),
    ],
)
def test_the_title_is_the_project_its_commit_and_the_day(tmp_path, header, title):
    text = page_of_runs(run(tmp_path, "times", 1, **header))
    assert f"<h1>{title}</h1>" in text
    assert f"<title>{title}, kernel-bridge</title>" in text


@pytest.mark.parametrize(("slower", "look"), [(1.0, "good"), (1.28, "plain"), (1.6, "bad")])
def test_nothing_became_slower_is_green_only_where_nothing_is_unsure(tmp_path, slower, look):
    runs = [saved(tmp_path / f"{number}.jsonl", timed_records(run_of("times", number), slower=factor))
            for number, factor in ((1, 1.0), (2, slower))]  # fmt: skip
    verdicts = {one.verdict for one in compare(runs[0].records, runs[1].records)}
    assert (Verdict.UNSURE in verdicts) is (look == "plain")
    assert tiles(page_of_runs(*runs))["Slower or broken"][0] == look


@pytest.mark.parametrize("kind", ["copy, memory", "copy of 1.07 GB, cold"])
def test_the_roofline_has_its_ceiling_or_leaves_the_cell_out(tmp_path, kind):
    run_ = run_of("times")
    work = {"flops": 4000, "bytes": 4000, "bandwidth_limit": 1e10, "bandwidth_limit_kind": kind}
    records = [
        make_record(make_cell(operator="memory"), 1000.0, run_, **work, roof_ns=400.0, roof_kind=kind),
        make_record(make_cell(operator="compute"), 1000.0, run_, **work, roof_ns=500.0, roof_kind="adds (8 Gflop/s)"),
        make_record(make_cell(operator="unknown"), 1000.0, run_, **work),
    ]
    found = saved(tmp_path / "a.jsonl", records)
    points = roof_points(choose([(found, found.records)]).shown[0].rows)
    assert [point["label"] for point in points if not point["line"]] == ["memory", "compute"]
    assert {(point["roof"], point["rate"] / (point["intensity"] if point["roof"] == "memory" else 1))
            for point in points if point["line"]} == {("memory", 1e10), ("adds (8 Gflop/s)", 8e9)}  # fmt: skip
    bend = max(point["intensity"] for point in points if point["roof"] == "memory")
    assert bend == min(point["intensity"] for point in points if point["line"] and "adds" in point["roof"]) == 0.8
    assert {point["name"] for point in points if point["line"]} == {"", "memory, 10.0 GB/s", "adds (8 Gflop/s)"}
    drawn = spec_of("roofs", points, 600)["data"]["values"]
    assert {row["named"] for row in drawn if "named" in row} == {"memory", "compute"}


def test_the_fastest_kernels_stand_by_dtype_and_device(tmp_path):
    cpu, gpu = run_of("times"), run_of("times", device=GPU)
    found = saved(tmp_path / "both.jsonl", [*timed_records(cpu), *timed_records(gpu)])
    assert [one.device for one in choose([(found, found.records)]).shown] == ["cpu: Xeon", "cuda: NVIDIA H200"]
    text = page_of_runs(found)
    assert re.findall(r'data-label="(cpu: Xeon|cuda: NVIDIA H200)">([^<]*)<', text)[:2] == [
        ("cpu: Xeon", "numba 0.60 from 1,024"), ("cuda: NVIDIA H200", "numba 0.60 from 1,024"),
    ]  # fmt: skip
    heat = re.search(r'<table class="heat.*?</table>', text, re.DOTALL)[0]
    rows = re.findall(r'<th scope="row" class="left">(.*?)</th>', heat)
    assert rows == [f"{name} \N{MIDDLE DOT} {dtype}" for name in ("add", "softmax") for dtype in ("f32", "f64")]


def test_an_interrupted_run_whose_cells_another_run_has_is_no_doubt(tmp_path):
    whole_run = run(tmp_path, "times", 1)
    cut = run(tmp_path, "times", 2)
    cut.path.write_bytes(b"".join(cut.path.read_bytes().splitlines(keepends=True)[:-3]))
    found = load_run(tmp_path / "times2.jsonl")
    alone = choose([(found, found.records)])
    assert any("INCOMPLETE" in doubt for doubt in alone.doubts)
    assert choose([(whole_run, whole_run.records), (found, found.records)]).doubts == ()


def test_a_run_in_which_everything_failed_has_a_page(tmp_path):
    broken = {"status": Status.COMPILE_ERROR, "reason": "no compiler"}
    records = [make_record(make_cell(backend=name), None, run_of("times"), **broken) for name in ("jnp", "numba")]
    text = page_of_runs(saved(tmp_path / "broken.jsonl", records))
    assert sections(text) == ["summary", "fastest", "times", "runs"]
    assert tiles(text)["Right results"][:2] == ("bad", "2 failed")
    assert "no compiler" in text


def test_the_policy_allows_only_what_the_page_holds(tmp_path):
    text = page_of_runs(run(tmp_path, "times"))
    page = Reader(text)
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(ids) == len({*ids})
    (policy,) = [found["content"] for tag, found in page.elements if tag == "meta" and "http-equiv" in found]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    assert "http" not in policy

    style = re.search("<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert rules["style-src"] == f"'sha256-{digest}'"
    assert "script-src" not in rules


def test_hostile_names_stay_text_and_a_page_loads_nothing_and_has_no_handlers(tmp_path):
    found = saved(tmp_path / "nasty.jsonl", nasty_records(nasty_run()))
    for text in (page_of_runs(found), page_of_runs(*(run(tmp_path, kind) for kind in MAKERS))):
        # What turns text around or ends a line is shown as an escape.
        assert not any(sign in text for sign in ("\u202e", "\x07", "\u2028"))
        for tag, attributes in Reader(text).elements:
            assert tag not in ("script", "link", "iframe", "object", "embed", "base", "img")
            assert not {"src", "srcset", "style", "action", "data"} & set(attributes), (tag, attributes)
            assert not any(name.startswith("on") for name in attributes), (tag, attributes)
            assert str(attributes.get("href", "#")).startswith("#")


def test_the_command_writes_a_page_of_what_options_select_or_says_why_not(tmp_path, capsys):
    found = str(run(tmp_path, "times").path)
    output = tmp_path / "page.html"
    assert main(["report", found, found, "--operator", "add", "--output", str(output)]) == Exit.FINE
    assert "Open it in a browser." in capsys.readouterr().err
    text = output.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert (">add<" in text, "softmax" in text) == (True, False)
    assert main(["report", found, "--output", str(tmp_path / "no" / "page.html")]) == Exit.COULD_NOT_RUN
    assert "cannot be written" in capsys.readouterr().err


def test_a_run_that_is_not_whole_is_said_on_top_of_the_page(tmp_path):
    found = run(tmp_path, "checks")
    lines = found.path.read_bytes().splitlines(keepends=True)
    found.path.write_bytes(b"".join(lines[:-2]))
    output = tmp_path / "page.html"
    assert main(["report", str(found.path), "--output", str(output)]) == Exit.FINE
    text = output.read_text(encoding="utf-8")
    assert text.index("These runs are no proof") < text.index('<section id="summary"')
    assert "INCOMPLETE" in text


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    charts._library.cache_clear()
    with pytest.raises(LibraryMissing, match=r'pip install "vl-convert-python'):
        charts._library()


def heat(path, times, **header):
    """The rows of the heat map of one operator: its words, and the class of each cell by backend."""
    own = run_of("times", **header)
    text = page_of_runs(saved(path / "heat.jsonl", [
        make_record(make_cell(backend=backend, size=size), time * size, own)
        for backend, time in times.items() for size in (1024, 4096)
    ]))  # fmt: skip
    table = re.search(r'<table class="heat.*?</table>', text, re.DOTALL)[0]
    cells = re.findall(r'<td class="([^"]*)" data-label="([^"]*)"[^>]*>(.*?)</td>', table)
    return {backend: (css, re.sub("<.*?>", "", words)) for css, backend, words in cells}


@pytest.mark.parametrize(
    ("times", "fastest", "marked"),
    [
        ({"jnp": 3, "numba": 1, "warp": 2}, "numba", {"numba"}),
        ({"jnp": 3, "numba": 1, "warp": 1.001}, "tie: numba, warp", {"numba", "warp"}),
        ({"jnp": 1, "numba": 2, "warp": 3}, "jnp", set()),
        ({"numba": 2, "warp": 3}, "numba", {"numba"}),
    ],
)
def test_the_fastest_of_a_row_is_marked_and_a_tie_is_said(tmp_path, times, fastest, marked):
    found = heat(tmp_path, times)
    assert found.pop("fastest")[1] == fastest
    assert {name for name, (css, words) in found.items() if "winner" in css and "\N{BLACK STAR}" in words} == marked
    text = page_of_runs(load_run(tmp_path / "heat.jsonl"))
    assert ("Kernels that beat jnp" in text) == ("jnp" in times)
    if "jnp" not in times:
        assert found["warp"][1] == "1.50", "times are divided by those of the fastest"


def test_another_library_or_a_backend_without_a_size_is_not_called_fastest(tmp_path):
    assert heat(tmp_path, {"jnp": 3, "numba": 2, "cupy": 1}, peers={"cupy": "CuPy 14"})["fastest"][1] == "numba"


def test_what_a_run_of_the_same_selection_lacks_is_missing_and_not_counted_as_passed(tmp_path):
    first, second = run_of("times", 1), run_of("times", 2)
    kernels = {"kept": None, "gone": None, "worse": None}, {"kept": None, "worse": Status.WRONG_VALUE, "came": None}
    runs = [
        saved(tmp_path / f"{number}.jsonl", [
            make_record(make_cell(operator=name), None if status else 1000.0, own,
                        **({"status": status} if status else {}))
            for name, status in statuses.items()
        ])
        for number, (own, statuses) in enumerate(zip((first, second), kernels, strict=True))
    ]  # fmt: skip
    (own,) = choose([(one, one.records) for one in runs]).shown
    assert {one.cell.operator: str(one.verdict) for one in comparisons(own)} == {
        "kept": "SAME", "gone": "MISSING", "worse": "BROKEN", "came": "NEW",
    }  # fmt: skip
    text = page_of_runs(*runs)
    assert all(f">{verdict} " in text for verdict in ("MISSING", "BROKEN", "NEW"))
    assert "2 of 3 passed" in tiles(text)["Right results"][2]


def test_checks_that_changed_are_said_and_a_run_that_was_cut_removes_nothing(tmp_path):
    before = checks(tmp_path, 1, {"numba": None, "warp": None, "pallas": None})
    after = checks(tmp_path, 2, {"numba": None, "warp": Status.CRASHED})
    (own,) = choose([(one, one.records) for one in (before, after)]).shown
    assert {one.cell.backend: str(one.verdict) for one in comparisons(own)} == {"warp": "BROKEN", "pallas": "MISSING"}
    cut = run(tmp_path, "times", 2)
    cut.path.write_bytes(b"".join(cut.path.read_bytes().splitlines(keepends=True)[:-3]))
    whole_run, cut = run(tmp_path, "times", 1), load_run(cut.path)
    assert choose([(one, one.records) for one in (whole_run, cut)]).shown[0].removed == ()
