"""Runs the kernels of a selection under the tools of NVIDIA's compute-sanitizer, and shows the findings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from reports.options import Exit
from reports.render.layout import Column, Style, Table, Text
from suites.cells.selection import Selection, SelectionError
from suites.sanitize.output import TOOLS, ToolReport, read_output

VARIABLE = "COMPUTE_SANITIZER"
"""The environment variable with the path of compute-sanitizer, if it is in no usual folder."""

TOOL_S = 900.0
"""Seconds that one tool may take for all kernels; its output until then counts."""

_NAME = "compute-sanitizer"


def find_sanitizer() -> str:
    """Returns the path of compute-sanitizer: of :data:`VARIABLE`, on the path, of a CUDA toolkit, or of a wheel.

    Raises:
        SelectionError: It is not installed.
    """
    configured = os.environ.get(VARIABLE)
    if configured:
        if shutil.which(configured) is None:
            raise SelectionError(f"{VARIABLE} is {configured!r}, which is no program. Give the path of {_NAME}.")
        return configured
    wheels = [wheel for entry in sys.path for wheel in Path(entry, "nvidia").glob("*")]
    folders: list[str | Path] = [os.environ.get("CUDA_HOME") or "/usr/local/cuda", *sys.path, *wheels]
    for folder in (None, *(os.path.join(parent, inner) for parent in folders for inner in ("bin", _NAME))):
        path = shutil.which(_NAME, path=folder)
        if path:
            return path
    raise SelectionError(
        f"{_NAME} is not installed: it comes with the CUDA toolkit. Install it, or set {VARIABLE} to its path."
    )


def run_tool(sanitizer: str, tool: str, selection: Selection, timeout_s: float) -> ToolReport:
    """Runs the cells of a selection under one tool.

    Args:
        sanitizer: Path of compute-sanitizer.
        tool: One of :data:`TOOLS`.
        selection: The cells.
        timeout_s: Seconds after which the tool is ended; its output until then counts.
    """
    command = [
        sanitizer, "--tool", tool, "--report-api-errors", "no", "--show-backtrace", "no", "--print-limit",
        "10000", "--target-processes", "application-only",
        sys.executable, "-P", "-m", "suites.sanitize.cells", msgspec.json.encode(selection).decode(),
    ]  # fmt: skip
    # Each array is allocated separately, so that the tools know where it ends and whether it was written. XLA's
    # allocator "platform" allocates whole pages, where memcheck does not see the end of an array. Command buffers are
    # off, because the kernels of a CUDA graph are launched together.
    variables = os.environ | {
        "XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async" if tool == "memcheck" else "platform",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_enable_command_buffer=".strip(),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    try:
        ended = subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=timeout_s, check=False,
        )  # fmt: skip
        output = ended.stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    return read_output(tool, output.decode(errors="replace").splitlines())


def sanitize(
    selection: Selection, tools: Sequence[str], timeout_s: float = TOOL_S
) -> tuple[list[Table], Exit, list[str]]:
    """Runs a selection under the tools.

    Returns:
        Tables, the exit code, and the reasons why not everything was checked.

    Raises:
        SelectionError: There is no compute-sanitizer here.
    """
    sanitizer = find_sanitizer()
    reports = [run_tool(sanitizer, tool, selection, timeout_s) for tool in tools]
    gaps = [report.incomplete for report in reports if report.incomplete is not None]
    has_findings = any(report.findings for report in reports)
    code = Exit.WRONG if has_findings else Exit.COULD_NOT_RUN if gaps else Exit.FINE
    return [sanitizer_table(reports), *findings_tables(reports)], code, gaps


def sanitizer_table(reports: Sequence[ToolReport]) -> Table:
    """Returns the table of cells and tools, with the number of findings."""
    cells = [cell for report in reports for cell in (*report.done, *report.failed, *(f.cell for f in report.findings))]
    columns = (Column("cell", align="left"), *(Column(report.tool, note=TOOLS[report.tool]) for report in reports))
    rows = [(Text(cell), *(_entry(report, cell) for report in reports)) for cell in dict.fromkeys(cells) if cell]
    notes = ("ok: the tool found nothing; a number: findings; -: not checked",)
    return Table("Findings of compute-sanitizer", columns, tuple(rows), notes)


def _entry(report: ToolReport, cell: str) -> Text:
    count = sum(finding.count for finding in report.findings if finding.cell == cell)
    if count:
        return Text(str(count), Style.BAD)
    return Text("ok") if cell in report.done else Text("-", Style.FAINT)


def findings_tables(reports: Sequence[ToolReport]) -> list[Table]:
    """Returns a table with a row for each finding; no table if there are none."""
    rows = [
        (Text(finding.cell or "outside of cells"), Text(report.tool), Text(str(finding), Style.BAD))
        for report in reports
        for finding in report.findings
    ]
    columns = tuple(Column(name, align="left") for name in ("cell", "tool", "finding"))
    return [Table("Findings", columns, tuple(rows))] if rows else []
