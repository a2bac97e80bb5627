"""Finds the syntax tree that a function was compiled from, and makes sure that it is this one."""

from __future__ import annotations

import ast
import collections
import functools
import linecache
import types
from collections.abc import Iterator, Mapping
from typing import Any

from bridge.source.parsing import PARSING


def compiled_from(code: types.CodeType) -> ast.FunctionDef | None:
    """The syntax tree of a function whose code is what the source compiles to now.

    None if the file has changed since it was imported, if it is not available, or if the function has no ``def``. The
    whole file is compiled: the code of a function depends also on what the module imports.
    """
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename))
    known = _functions(source).get((code.co_name, code.co_firstlineno))
    return known[0] if known is not None and known[1] == _content(code) else None


@functools.lru_cache(maxsize=256)
def _functions(source: str) -> Mapping[tuple[str, int], tuple[ast.FunctionDef, Any]]:
    """The functions of a file by name and first line: the syntax tree, and what it compiles to."""
    try:
        with PARSING:
            tree = ast.parse(source)
            compiled = compile(source, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    codes = {(each.co_name, each.co_firstlineno): _content(each) for each in _inner(compiled)}
    definitions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    keys = [
        (each.name, min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)]))
        for each in definitions
    ]
    counts = collections.Counter(keys)
    return {key: (each, codes[key]) for key, each in zip(keys, definitions, strict=True) if counts[key] == 1}


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from _inner(each)


def _content(code: types.CodeType) -> tuple[Any, ...]:
    """What a function does, without its place in a file."""
    constants = tuple(
        _content(each) if isinstance(each, types.CodeType) else (type(each), repr(each)) for each in code.co_consts
    )
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants
