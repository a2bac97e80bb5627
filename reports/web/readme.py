"""Writes the pictures and the table of the README from the published records: ``python -m reports.web.readme``.

With ``--check`` it only prints the files that are out of date; then it needs no plotting library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from reports.errors import ReportError
from reports.pages.phrases import outcome_counts
from reports.pages.rows import BASELINE, CellRow, backends_of, cell_rows, mean_ratio, shared_rows
from reports.pages.run_notes import device_name
from reports.records.record import Record
from reports.records.run_file import load_run
from reports.records.store import list_runs
from reports.render.units import interval_text, ratio_text
from reports.web.chart_theme import BASELINE_COLOR, INKS, SERIES
from reports.web.charts import SCHEMA, chart_config, ratio_points, spec_of, svg_of
from reports.web.kernel_grid import kernels
from reports.web.run_choice import RunKind, kind_of

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
"""The marks around the table."""

PICTURE = "docs/ratios.svg"
TITLE = f"Time of each kernel, divided by the time of {BASELINE}"

Newest = Mapping[str, Sequence[CellRow]]
"""The cells of the newest run of each platform."""

Spec = dict[str, Any]


def main(arguments: Sequence[str] | None = None, project: Path = Path()) -> int:
    """Runs the command; returns 0 if everything is current, 1 if something is out of date, 3 for an error."""
    parser = argparse.ArgumentParser("python -m reports.web.readme", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    options = parser.parse_args(arguments)
    try:
        stale = stale_files(project)
        newest = newest_runs(project / "reports" / "published")
        for name in stale:
            if options.check:
                print(f"{name} is out of date. Run: nox -s pictures", file=sys.stderr)
                continue
            path = project / name
            text = drawn(picture(newest)) if path.suffix == ".svg" else with_table(_text(path), measured_table(newest))
            path.write_text(text, encoding="utf-8")
            print(name)
    except (ReportError, OSError) as error:
        print(f"python -m reports.web.readme: {error}", file=sys.stderr)
        return 3
    return 1 if stale and options.check else 0


def stale_files(project: Path) -> list[str]:
    """Returns the files that the published records would change: the picture, by its digest, and the README."""
    newest = newest_runs(project / "reports" / "published")
    svg, readme = project / PICTURE, _text(project / "README.md")
    is_drawn = svg.is_file() and f"<!-- data {digest(picture(newest))} -->" in _text(svg)
    is_written = with_table(readme, measured_table(newest)) == readme
    return [*([] if is_drawn else [PICTURE]), *([] if is_written else ["README.md"])]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def newest_runs(published: Path) -> Newest:
    """Returns the cells of the newest run that timed kernels, by platform. Runs of selected cells only are left out.

    Args:
        published: The folder of the published runs, with a folder for each machine.

    Raises:
        ReportError: A run cannot be read.
    """
    newest: dict[str, list[Record]] = {}
    for path in sorted(file for folder in published.iterdir() if folder.is_dir() for file in list_runs(folder)):
        records = load_run(path).records
        if records and not records[0].run.selection and kind_of(records) is RunKind.TIMES:
            platform = records[0].run.device.platform
            if platform not in newest or records[0].run.started > newest[platform][0].run.started:
                newest[platform] = records
    return {platform: cell_rows(newest[platform]) for platform in sorted(newest)}


def digest(spec: Spec) -> str:
    """Returns the digest of the description and data of a picture, which identifies it."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()


def drawn(spec: Spec) -> str:
    """Returns a picture as SVG with its digest, its title, and the colours that it takes on a dark page.

    Raises:
        LibraryMissing: The plotting library is not installed.
    """
    svg = svg_of(spec)
    pairs = [*INKS.values(), *SERIES, BASELINE_COLOR]
    rules = [f'[{name}="{light}"] {{ {name}: {dark} }}' for light, dark in pairs for name in ("fill", "stroke")]
    style = f"<style>@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}</style>"
    end = svg.index(">", svg.index("<svg")) + 1
    head = f"<!-- data {digest(spec)} -->\n{style}\n<title>{escape(TITLE)}</title>\n"
    return f"{svg[:end]}\n{head}{svg[end:]}\n"


def measured_table(newest: Newest) -> str:
    """Returns the table of the README as Markdown, with a line below it that names the runs.

    Args:
        newest: The cells of the newest run of each platform.
    """
    lines = [
        f"| machine | backend | right results | time / {BASELINE} (95% interval) |",
        "| --- | --- | ---: | ---: |",
    ]
    ids = []
    for rows in newest.values():
        device = device_name(rows[0].run)
        shared = shared_rows(rows)
        for backend in (each for each in backends_of(rows) if each != BASELINE):
            own = [row for row in rows if row.cell.backend == backend]
            counts = outcome_counts(row.status for row in own)
            if judged := counts["passed"] + counts["failed"]:
                passed = f"{counts['passed']} of {judged}"
                lines.append(f"| {device} | `{backend}` | {passed} | {_ratio_text(shared, backend)} |")
                device = ""
        ids.append(f"`{rows[0].run.run_id}`")
    note = (
        "A result is that of an operator at one dtype and size. The ratio is the geometric mean of the time divided by"
        f" that of XLA's own code ({BASELINE}), over what two backends or more have; below 1 is faster."
        f" Runs: {', '.join(ids)}."
    )
    return "\n".join([*lines, "", note])


def with_table(text: str, table: str) -> str:
    """Returns a text with the table between its marks.

    Raises:
        ReportError: The text lacks a mark.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ReportError(f"the README has no table to replace: it needs the lines {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _ratio_text(rows: Sequence[CellRow], backend: str) -> str:
    mean = mean_ratio(row for row in rows if row.cell.backend == backend)
    return ratio_text(mean.mean) + (f" ({interval_text(mean.low, mean.high)})" if mean.low is not None else "")


def picture(newest: Newest) -> Spec:
    """Returns the picture in Vega-Lite, with its data: a panel for each platform."""
    panels = []
    for platform, rows in newest.items():
        points = ratio_points(kernels([row for row in rows if row.cell.mode == "forward"]))
        points = [{**point, "label": point["label"].partition(" · ")[0]} for point in points]  # without the parameters
        where = {"cpu": "CPU", "cuda": "GPU"}[platform]
        title = {"text": f"{where}: {device_name(rows[0].run)}", "fontSize": 12, "anchor": "start"}
        panels.append({**spec_of("forest", points, 290, legend=True), "title": title})
    note = f"Geometric mean over sizes, with its 95% interval; left of 1 is faster than XLA's own code ({BASELINE})."
    look = {name: part for name, part in chart_config().items() if name not in ("background", "padding")}
    return {
        "$schema": SCHEMA, "background": INKS["page"][0], "padding": {"left": 36, "right": 44, "top": 14, "bottom": 12},
        "config": {**look, "legend": {**look["legend"], "columns": 3, "labelFontSize": 11, "symbolSize": 50}},
        "title": {"text": TITLE, "subtitle": note, "anchor": "start", "fontSize": 17, "offset": 16, "frame": "bounds"},
        "hconcat": panels, "spacing": 40,
        "resolve": {"scale": dict.fromkeys(("x", "y", "color", "shape"), "independent")},
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
