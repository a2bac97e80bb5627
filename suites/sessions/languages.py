"""Writes the page that shows kernels of several languages beside their times: ``python -m suites.sessions.languages``.

It reads recorded runs of ``bench``, and the files of the built-in kernels.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reports import load_run, to_frame
from reports.render.units import time_text

OPERATORS = ("add", "rms_norm", "softmax", "matvec", "matmul", "attention", "csr_matvec", "cumsum", "stencil")
"""The operators of the page, which differ in kind."""

FILES = {"numba_cuda": "numba_cuda.py", "warp": "warp.py", "triton": "triton.py"}
"""The file with the kernel of a language, by what the name of a backend begins with."""

MOST_LINES = 48
"""Lines of code up to which the page shows a file."""

FOLDER = Path(__file__).parents[1] / "ops"


def code_of(operator: str, backend: str) -> list[str] | None:
    """Returns the lines of code of a kernel without docstrings, comments and empty lines; None if it has no file."""
    path = next((FOLDER / operator / file for start, file in FILES.items() if backend.startswith(start)), None)
    if path is None or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    hidden: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            hidden |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return [
        line for number, line in lines if number not in hidden and line.strip() and not line.strip().startswith("#")
    ]


def section(operator: str, rows: Sequence[Any]) -> Iterator[str]:
    """Yields the lines of the page about one operator: a table of its backends, fastest first, and their code."""
    yield from (f"## {operator}", "", "| backend | verdict | time of a call | beside jnp | lines of code |")
    yield "| --- | --- | ---: | ---: | ---: |"
    shown: list[tuple[str, list[str]]] = []
    for row in rows:
        code = code_of(operator, row.backend)
        ratio = "" if row.ratio != row.ratio else f"{row.ratio:.2f}"
        yield f"| `{row.backend}` | {row.status} | {time_text(row.median_ns)} | {ratio} | {len(code) if code else ''} |"
        if code and code not in (each for _, each in shown):
            shown.append((row.backend, code))
    yield ""
    for backend, code in shown:
        if len(code) <= MOST_LINES:
            yield from (f"<details><summary>{backend}</summary>", "", "```python", *code, "```", "", "</details>", "")


def page(paths: Sequence[str]) -> str:
    """Returns the page of recorded runs, as Markdown."""
    records = [record for path in paths for record in load_run(path).records]
    frame = to_frame(records)
    frame = frame[frame["median_ns"].notna()].sort_values("median_ns")
    device, sizes = records[0].run.device.kind, sorted({int(size) for size in frame["size"]})
    lines = [
        f"# Kernels by language, on {device}",
        "",
        f"{', '.join(f'{size:,}' for size in sizes)} elements of {', '.join(sorted(set(frame['dtype'])))}. Each kernel "
        "passed its check in the process that timed it. Long files are not shown: those of Numba-CUDA hold several "
        f"kernels, tuned by hand. The code is in `suites/ops/`. Run: {', '.join(sorted(set(frame['run_id'])))}.",
        "",
    ]
    for operator in OPERATORS:
        rows = list(frame[frame["operator"] == operator].itertuples())
        lines += section(operator, rows) if rows else []
    return "\n".join(lines)


def main() -> None:
    """Prints the page."""
    parser = argparse.ArgumentParser("python -m suites.sessions.languages", description=__doc__)
    parser.add_argument("runs", nargs="+", help="paths of recorded runs of bench")
    print(page(parser.parse_args().runs))


if __name__ == "__main__":
    main()
