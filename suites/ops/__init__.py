"""Finds the built-in operators: the ``OPERATOR`` of each module of this folder."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from suites import Operator


@functools.cache
def operators() -> dict[str, Operator]:
    """All built-in operators by name, sorted."""
    modules = (importlib.import_module(f"{__name__}.{folder.name}") for folder in pkgutil.iter_modules(__path__))
    by_name = {module.OPERATOR.name: module.OPERATOR for module in modules}
    return dict(sorted(by_name.items()))
