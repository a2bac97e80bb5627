"""The page of recorded runs, without a browser: its sections, its data, its safety and its command."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from reports.cli import main
from reports.errors import LibraryMissing
from reports.options import Exit
from reports.web import page_file, vega_bundle
from reports.web.cell_data import packed_cells, packed_details
from reports.web.chart_theme import BASELINE_COLOR, INKS, SERIES
from reports.web.html_tables import html_table
from reports.web.markup import Markup, data_block, element
from reports.web.repeat_command import repeat_command
from reports.web.run_choice import RunKind, choose
from suites.unit.reports.builders import make_cell
from suites.unit.reports.page_runs import (
    NASTY,
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

MAKERS = {"times": timed_records, "checks": checked_records, "mutants": mutant_records, "calls": call_records}


class Reader(HTMLParser):
    """Reads a page as a browser does: its elements, their attributes, and the text of each script and style."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.raw, self.ids = [], {}, set()
        self._open = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.elements.append((tag, found))
        if "id" in found:
            assert found["id"] not in self.ids, f"two elements have the id {found['id']}"
            self.ids.add(found["id"])
        if tag in ("script", "style"):
            self._open = found.get("id", f"{tag}-{found.get('type', '')}")
            self.raw[self._open] = ""

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._open = None

    def handle_data(self, data):
        if self._open is not None:
            self.raw[self._open] += data


@pytest.fixture(autouse=True)
def library(monkeypatch):
    """The page without the plotting library, which the tests in a browser have."""
    monkeypatch.setattr(page_file, "vega_script", lambda: "window.kernelBridgeEmbed = null;")


def run(tmp_path, kind, number=0, **changes):
    records = MAKERS[kind](run_of(kind, number))
    return saved(tmp_path / f"{kind}{number}.jsonl", records)


def sections(text):
    return re.findall(r'<section id="(\w+)"', text)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("times", ["summary", "times", "roofs", "ratios", "cells", "runs"]),
        ("checks", ["summary", "verdicts", "ratios", "cells", "runs"]),
        ("mutants", ["summary", "mutants", "cells", "runs"]),
        ("calls", ["summary", "calls", "cells", "runs"]),
    ],
)
def test_a_page_has_the_sections_that_its_run_fills(tmp_path, kind, expected):
    assert sections(page_of_runs(run(tmp_path, kind))) == expected


def test_a_page_of_every_kind_of_run_has_all_sections_in_their_order(tmp_path):
    runs = [run(tmp_path, kind, number) for kind in MAKERS for number in range(3 if kind == "times" else 1)]
    text = page_of_runs(*runs)
    assert sections(text) == [
        "summary", "verdicts", "changes", "times", "roofs", "ratios", "calls", "mutants", "history", "cells", "runs",
    ]  # fmt: skip
    assert "not caught" not in text
    assert "of 2 broken kernels caught" in text
    assert "got 1.0, truth 2.0" in text


def test_the_newest_run_is_shown_and_the_one_before_says_what_has_changed(tmp_path):
    before = saved(tmp_path / "a.jsonl", timed_records(run_of("times", 1)))
    after = saved(tmp_path / "b.jsonl", timed_records(run_of("times", 2), slower=2.0))
    choice = choose([(after, after.records), (before, before.records)])
    assert [one.run.run_id for one in choice.shown] == [after.run_id]
    assert choice.older == (before.run_id,)
    text = page_of_runs(before, after)
    assert "Became slower" in text
    assert re.search(r"add-warp-f32-1024-cpu</code> takes 2.00 times as long", text)


def test_runs_of_two_machines_are_both_shown(tmp_path):
    host = timed_records(run_of("times", 1))[0].run.host
    import msgspec

    other = msgspec.structs.replace(host, machine="other")
    runs = [
        saved(tmp_path / "a.jsonl", timed_records(run_of("times", 1))),
        saved(tmp_path / "b.jsonl", timed_records(run_of("times", 2, host=other))),
    ]
    assert len(choose([(one, one.records) for one in runs]).shown) == 2


def test_the_data_of_a_page_is_what_was_recorded(tmp_path):
    found = run(tmp_path, "times")
    chosen = choose([(found, found.records)]).shown
    cells = json.loads(json.dumps(packed_cells(chosen)))
    columns = {column["name"]: column for column in cells["columns"]}
    assert cells["count"] == len(found.records)
    assert columns["time"]["numbers"] == [float(f"{one.timing.median_ns:.6g}") for one in found.records]
    operator = columns["operator"]
    assert [operator["words"][code] for code in operator["codes"]] == [one.cell.operator for one in found.records]
    assert "fastest" in columns["place"]["words"]
    details = json.loads(json.dumps(packed_details(chosen)))
    first = details["processes"][0]
    assert len(first) == len(found.records[0].timing.processes)
    samples = [ns / 1000 for ns in found.records[0].timing.processes[0].samples_ns]
    assert first[0]["samples"] == pytest.approx(samples, rel=1e-3)
    commands = details["commands"]
    assert commands["words"][commands["codes"][1]] == (
        "kernel-bridge bench --operator add --backend numba --dtype f32 --size 1024 --profile quick"
    )
    names = [fact["name"] for section in details["sections"] for fact in section["facts"]]
    assert {"median_ns", "versions", "flags", "host_cpu", "commit", "seed"} <= set(names)


CELL = "--operator lif_step --backend numba --dtype f32"
COMMANDS = [
    (RunKind.TIMES, {}, f"bench {CELL} --size 4096 --profile quick"),
    (RunKind.TIMES, {"mode": "forward+backward"}, f"bench {CELL} --size 4096 --mode forward+backward --profile quick"),
    (
        RunKind.CHECKS,
        {"mode": "grad vmap", "platform": "cuda"},
        f"validate {CELL} --device cuda --profile quick -- -k 'grad and vmap'",
    ),
    (RunKind.CHECKS, {"mode": "not a name"}, f"validate {CELL} --profile quick"),
    (RunKind.MUTANTS, {"mode": "vmap"}, f"mutants {CELL} --profile quick -- -k vmap"),
    (RunKind.CALLS, {"backend": "warp-native", "mode": "loop"}, "dispatch --backend warp-native"),
    (
        RunKind.TIMES,
        {"operator": "a; rm -rf $HOME"},
        "bench --operator 'a; rm -rf $HOME' --backend numba --dtype f32 --size 4096 --profile quick",
    ),
]


@pytest.mark.parametrize(("kind", "changes", "expected"), COMMANDS)
def test_the_command_repeats_a_cell(kind, changes, expected):
    assert repeat_command(make_cell(**changes), run_of(str(kind)), kind) == f"kernel-bridge {expected}"


def test_the_command_names_the_file_of_the_operators():
    header = run_of("times", selection={"source": ["my ops.py"]})
    assert repeat_command(make_cell(), header, RunKind.TIMES).startswith("kernel-bridge bench 'my ops.py' --operator")


def test_the_policy_allows_only_what_the_page_holds(tmp_path):
    text = page_of_runs(run(tmp_path, "times"))
    page = Reader(text)
    (policy,) = [found["content"] for tag, found in page.elements if tag == "meta" and "http-equiv" in found]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    assert "http" not in policy

    def hashed(part):
        return f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"

    assert hashed(page.raw["style-"]) == rules["style-src"]
    assert set(rules["script-src"].split()) == {hashed(page.raw["script-"]), hashed(page.raw["library"])}


def test_a_page_loads_nothing_and_has_no_handlers(tmp_path):
    page = Reader(page_of_runs(*(run(tmp_path, kind) for kind in MAKERS)))
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "style", "action", "data"} & set(attributes), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
        assert tag not in ("link", "iframe", "object", "embed", "base", "img")


def test_hostile_names_stay_text(tmp_path):
    found = saved(tmp_path / "nasty.jsonl", nasty_records(nasty_run()))
    page = Reader(page_of_runs(found))
    plain = Reader(page_of_runs(run(tmp_path, "times")))
    assert [tag for tag, _ in page.elements if tag in ("script", "style", "img")] == [
        tag for tag, _ in plain.elements if tag in ("script", "style", "img")
    ]
    for block in ("cell-data", "detail-data", "chart-data", "series-data"):
        assert json.loads(page.raw[block])
        assert not set("<>&") & set(page.raw[block])
    cells = json.loads(page.raw["cell-data"])
    words = {word for column in cells["columns"] for word in column.get("words", [])}
    assert NASTY[0] in words
    # What turns text around or ends a line is shown as an escape.
    assert not any("\u202e" in word or "\x07" in word or "\u2028" in word for word in words)
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert not str(attributes.get("href", "#")).startswith("javascript")


@pytest.mark.parametrize("name", NASTY)
def test_an_element_escapes_its_text_and_attributes(name):
    page = Reader(element("p", {"title": name}, name))
    assert [tag for tag, _ in page.elements] == ["p"]
    assert set(page.elements[0][1]) == {"title"}
    block = Reader(data_block("x", {name: name}))
    assert [tag for tag, _ in block.elements] == ["script"]
    assert json.loads(block.raw["x"]) == {name: name}


def test_an_element_nests_what_it_built_and_knows_empty_ones():
    made = element("div", {"hidden": True, "open": False, "id": None}, element("br"), "a<b", [Markup("<i></i>"), None])
    assert made == "<div hidden><br>a&lt;b<i></i></div>"


def test_a_table_drops_columns_without_a_text():
    from reports.render.layout import Column, Row, Table, Text

    table = Table("T", (Column("a", align="left"), Column("b")), (Row((Text("x"), Text(""))),))
    assert ">b<" not in html_table(table)
    assert ">x<" in html_table(table)


def luminance(color):
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """The contrast of two colours, as the Web Content Accessibility Guidelines define it."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_colours_of_charts_can_be_told_from_the_page(dark):
    page = INKS["page"][dark]
    for pair in (*SERIES, BASELINE_COLOR):
        assert contrast(pair[dark], page) >= 4, pair
    for name in ("ink", "quiet", "accent", "bad"):
        assert contrast(INKS[name][dark], page) >= 4.5, name


def tokens():
    """The colours of the style sheet, by name: light, then dark."""
    text = page_file._asset("tokens.css")
    blocks = re.findall(r"\{([^{}]*--page[^{}]*)\}", text)
    assert len(blocks) == 3
    light, system, chosen = (dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks)
    assert system == chosen  # the switch and the system give the same dark page
    return light, chosen


@pytest.mark.parametrize("place", [0, 1])
def test_texts_of_the_page_have_enough_contrast(place):
    colors = tokens()[place]
    pairs = [("ink", "page"), ("ink", "raised"), ("quiet", "page"), ("quiet", "raised"), ("accent", "page"),
             ("accent", "tint"), ("good", "good-tint"), ("bad", "bad-tint"), ("ink", "doubt-tint"),
             ("on-accent", "accent"), ("quiet", "bad-tint")]  # fmt: skip
    pairs += [("on-strong", name) for name in ("fast3", "slow3", "seq3", "seq4")]
    pairs += [("ink", name) for name in ("fast2", "fast1", "even", "slow1", "slow2", "seq0", "seq1", "seq2")]
    low = {pair: round(contrast(*(colors[name] for name in pair)), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


def test_the_style_and_the_charts_have_the_same_colours():
    for place, colors in enumerate(tokens()):
        for name in ("page", "ink", "quiet", "line", "accent", "bad"):
            assert colors[name] == INKS[name][place], name


def test_the_command_writes_a_page_and_says_so(tmp_path, capsys):
    found = run(tmp_path, "checks")
    output = tmp_path / "page.html"
    assert main(["report", str(found.path), str(found.path), "--output", str(output)]) == Exit.FINE
    said = capsys.readouterr()
    assert "Open it in a browser." in said.err
    assert output.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_command_takes_the_cells_that_options_select(tmp_path):
    found = run(tmp_path, "times")
    output = tmp_path / "page.html"
    assert main(["report", str(found.path), "--operator", "add", "--output", str(output)]) == Exit.FINE
    cells = json.loads(Reader(output.read_text(encoding="utf-8")).raw["cell-data"])
    columns = {column["name"]: column for column in cells["columns"]}
    assert columns["operator"]["words"] == ["add"]


def test_the_command_refuses_a_file_that_cannot_be_written(tmp_path, capsys):
    found = run(tmp_path, "checks")
    assert main(["report", str(found.path), "--output", str(tmp_path / "no" / "page.html")]) == Exit.COULD_NOT_RUN
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
    with pytest.raises(LibraryMissing, match=r'pip install "kernel-bridge\[report\]"'):
        vega_bundle.svg_of({})
