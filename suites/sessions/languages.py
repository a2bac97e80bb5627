"""Writes the page that shows kernels of several languages beside their times: ``python -m suites.sessions.languages``.

It reads recorded runs of ``bench``, and the files of the built-in kernels.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np

from reports import load_run, to_frame
from reports.render.units import time_text
from suites.backends.backend import Backend
from suites.cells import catalogue

OPERATORS = ("add", "rms_norm", "softmax", "matvec", "matmul", "attention", "csr_matvec", "cumsum", "stencil")
"""The operators of the page, which differ in kind."""

FILES = {
    "numba_cuda": "numba_cuda.py", "warp": "warp.py", "triton": "triton.py", "jax_triton": "triton.py",
    "cutile_kernel": "cutile.py",
}  # fmt: skip
"""The file with the kernel of a language, by what the name of a backend begins with."""

ADDS = ("cutlass", "cutile", "tvm_ffi", "jax_tvm_ffi")
"""The backends with a kernel of ``add`` alone: a function of :mod:`suites.backends.vendor_adds`."""

MOST_LINES = 48
"""Lines of code up to which the page shows a file."""

FOLDER = Path(__file__).parents[1] / "ops"


def code_of(operator: str, backend: str) -> list[str] | None:
    """Returns the lines of code of a kernel, without imports, docstrings, comments and empty lines.

    It is the file of the language; of a file that several backends share, what this one needs. None if there is none.
    """
    path = next((FOLDER / operator / file for start, file in FILES.items() if backend.startswith(start)), None)
    roots: set[str] = set()
    if backend in ADDS and operator == "add":
        path, roots = FOLDER.parent / "backends" / "vendor_adds.py", {f"{backend}_add"}
    if path is None or not path.is_file():
        return None
    if backend == "numba_cuda_mlir":
        declared = catalogue.operators()[operator].kernels[Backend.NUMBA_CUDA_MLIR]
        kernel: Any = Backend.NUMBA_CUDA_MLIR.accept(declared)
        module = import_module(f"suites.ops.{operator}.numba_cuda")
        roots = {name for name, value in vars(module).items() if value in vars(kernel).values()}
    text = path.read_text(encoding="utf-8")
    body = [node for node in ast.parse(text).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    shown = {
        number
        for node in (_needed(body, roots) if roots else body)
        for number in range(min(each.lineno for each in _parts(node)), (node.end_lineno or 0) + 1)
    }
    for node in ast.walk(ast.Module(body, [])):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            shown -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return [line for number, line in lines if number in shown and line.strip() and not line.strip().startswith("#")]


def _parts(node: ast.stmt) -> list[Any]:
    """A statement, and the decorators before it."""
    return [node, *getattr(node, "decorator_list", ())]


def _needed(body: Sequence[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """The statements that define these names, and those that the definitions refer to."""
    needed: list[ast.stmt] = []
    while True:
        found = [node for node in body if node not in needed and _defined(node) & names]
        if not found:
            return needed
        needed += found
        names = {each.id for node in found for each in ast.walk(node) if isinstance(each, ast.Name)} - names


def _defined(node: ast.stmt) -> set[str]:
    """The names that a statement of a module defines."""
    targets = node.targets if isinstance(node, ast.Assign) else ()
    names = {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return names | {node.name} if isinstance(node, ast.FunctionDef) else names


def section(operator: str, rows: Sequence[Any]) -> Iterator[str]:
    """Yields the lines of the page about one operator: a table of its backends, fastest first, and their code."""
    yield from (f"## {operator}", "", "| backend | verdict | time of a call | beside jnp | lines of code |")
    yield "| --- | --- | ---: | ---: | ---: |"
    shown: list[tuple[str, list[str]]] = []
    for row in rows:
        code = code_of(operator, row.backend)
        ratio = "" if row.ratio != row.ratio else f"{row.ratio:.2f}"
        time = "" if row.median_ns != row.median_ns else time_text(row.median_ns)
        yield f"| `{row.backend}` | {row.status} | {time} | {ratio} | {len(code) if code else ''} |"
        if code and code not in (each for _, each in shown):
            shown.append((row.backend, code))
    yield ""
    yield from (f"- `{row.backend}`: {row.reason}" for row in rows if row.median_ns != row.median_ns)
    yield ""
    for backend, code in shown:
        if len(code) <= MOST_LINES:
            yield from (f"<details><summary>{backend}</summary>", "", "```python", *code, "```", "", "</details>", "")


def answers(operator: str, backend: str) -> str:
    """Says in words whether ``jax.vmap`` and ``jax.jvp`` of a kernel run, or what they raise, when JAX traces them."""
    found, kind = catalogue.operators()[operator], next(each for each in Backend if each.id == backend)
    inputs = found.sample(found.dtypes[0], 256, 0)
    index = next(at for at, each in enumerate(inputs) if np.issubdtype(each.dtype, np.floating))
    one, two = inputs[index], np.stack([inputs[index]] * 2)

    def call(x: Any) -> Any:
        return found.build(kind, inputs)(*inputs[:index], x, *inputs[index + 1 :])

    def said(function: Callable[[Any], Any], x: Any) -> str:
        try:
            jax.eval_shape(function, x)
        except Exception as error:
            return f"raises {type(error).__name__}"
        return "runs"

    if (alone := said(call, one)) != "runs":
        return f"cannot be asked here: a call {alone}"
    vmap, jvp = said(jax.vmap(call), two), said(lambda x: jax.jvp(call, (x,), (x,)), one)
    return f"`jax.vmap` {vmap}, `jax.jvp` {jvp}"


def page(paths: Sequence[str]) -> str:
    """Returns the page of recorded runs, as Markdown."""
    records = [record for path in paths for record in load_run(path).records]
    frame = to_frame(records)
    frame = frame.sort_values("median_ns")
    device, sizes = records[0].run.device.kind, sorted({int(size) for size in frame["size"]})
    lines = [
        f"# Kernels by language, on {device}",
        "",
        f"{', '.join(f'{size:,}' for size in sizes)} elements of {', '.join(sorted(set(frame['dtype'])))}. Each kernel "
        "passed its check in the process that timed it. Long files are not shown: those of Numba-CUDA hold several "
        "kernels, tuned by hand; numba-cuda-mlir compiles the plain ones among them. The code is in `suites/ops/`. "
        f"Run: {', '.join(sorted(set(frame['run_id'])))}.",
        "",
    ]
    for operator in OPERATORS:
        rows = list(frame[frame["operator"] == operator].itertuples())
        lines += section(operator, rows) if rows else []
    lines += [f"## Transformations in JAX {jax.__version__}", ""]
    kinds = frame.drop_duplicates("backend").sort_values("backend")
    lines += [f"- `{each.backend}`: {answers(str(each.operator), str(each.backend))}" for each in kinds.itertuples()]
    return "\n".join(lines)


def main() -> None:
    """Prints the page."""
    parser = argparse.ArgumentParser("python -m suites.sessions.languages", description=__doc__)
    parser.add_argument("runs", nargs="+", help="paths of recorded runs of bench")
    print(page(parser.parse_args().runs))


if __name__ == "__main__":
    main()
