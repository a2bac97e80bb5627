"""Exports everything that a user's file of operators needs: ``from suites import Operator``.

A name is imported when it is first used, so that ``import suites`` costs nothing. The building blocks of kernels are in
the file of their backend, such as :mod:`suites.backends.numba_cuda`.
"""

from __future__ import annotations

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
