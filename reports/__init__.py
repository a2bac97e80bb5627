"""Records the results of kernels, and shows and compares the recorded runs. Imports no JAX.

Rooms, from the bottom to the top:

    records     the record of a cell, and the files of runs
    statistics  ratios with intervals, ties and verdicts
    render      tables as text: for a terminal, as Markdown, or to files
    pages       from records to tables and frames
    gate        whether a comparison lets a change pass
    web         one HTML file of recorded runs
    cli         the commands that read runs

A name is imported when it is first used, so that `import reports` costs nothing. `to_frame` needs pandas.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOMES = {name.name: str(each.module) for each in _STUB.body if isinstance(each, ast.ImportFrom) for name in each.names}
"""The module of each public name, which is imported when the name is first used."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
