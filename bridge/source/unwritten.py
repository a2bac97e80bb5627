"""Reads the source of a kernel, and warns of outputs that it never writes to. They would return whatever was in memory.

An output counts as written if the source may write to it: if it assigns to the output's elements, passes it to a call,
gives it another name, views or returns it, or uses it in any way that is not known to only read it. The warning is for
outputs that the source does not use, only reads, or only rebinds: ``out = 2 * x`` makes a new variable, and does not
change the array.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import types
import warnings
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.errors import UnwrittenOutputWarning
from bridge.source.parsing import parse

_READ = frozenset({"shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides"})
"""Attributes of an array that cannot be used to write to it."""


@dataclass(frozen=True)
class Unwritten:
    """A parameter that a function never writes to.

    Attributes:
        parameter: Its name.
        line: The line of the file that rebinds it; the line of the function if none does.
        rebound: Whether it is assigned another value.
    """

    parameter: str
    line: int
    rebound: bool


def warn_unwritten_outputs(
    name: str, function: types.FunctionType, input_count: int, shapes: Sequence[Sequence[Any]], aliased: Container[int]
) -> None:
    """Warns of outputs that a function never writes to. The function takes inputs, then outputs.

    Args:
        name: The kernel, for the warning.
        function: The Python function that the user wrote.
        input_count: How many inputs it takes.
        shapes: The shape of each output. An output without elements need not be written.
        aliased: Indices of outputs that share a buffer with an input, through which they may be written.
    """
    code = function.__code__
    names = code.co_varnames[input_count : code.co_argcount]  # the rest is in *args
    written = enumerate(zip(names, shapes, strict=False))
    outputs = [each for index, (each, shape) in written if index not in aliased and not is_empty(shape)]
    warn_unwritten(name, function, outputs)


def is_empty(shape: Sequence[Any]) -> bool:
    """Whether an array of this shape, extents of which may be symbolic, has no elements."""
    return any(isinstance(extent, int) and extent == 0 for extent in shape)


def warn_unwritten(name: str, function: types.FunctionType, parameters: Sequence[str]) -> None:
    """Warns of outputs that a function never writes to, as far as its source shows.

    Args:
        name: The kernel, for the warning.
        function: The Python function that the user wrote.
        parameters: Names of outputs.
    """
    code = function.__code__
    for found in unwritten(code, tuple(parameters)):
        output = found.parameter
        what = (
            f"assigns to the variable {output!r}, which leaves the output array as it is"
            if found.rebound
            else f"never writes to its output {output!r}"
        )
        warnings.warn_explicit(
            f"{name} ({code.co_filename}:{found.line}) {what}: its result is whatever was in memory. Write to the "
            f"elements, as {output}[...] = value or {output}[i] = value; or leave {output!r} out of the outputs.",
            UnwrittenOutputWarning,
            code.co_filename,
            found.line,
            registry=_shown,
        )


_shown: dict[Any, Any] = {}
"""The registry of shown warnings, with which the filter "default" shows each place once."""


@functools.lru_cache(maxsize=1024)
def unwritten(code: types.CodeType, parameters: tuple[str, ...]) -> tuple[Unwritten, ...]:
    """The parameters that a function's source never writes to; none if the source is not available."""
    definition = _definition(code)
    if definition is None or _always_raises(definition):
        return ()
    parents = {child: node for node in ast.walk(definition) for child in ast.iter_child_nodes(node)}
    names = [node for node in ast.walk(definition) if isinstance(node, ast.Name)]
    found = []
    for parameter in parameters:
        uses = [node for node in names if node.id == parameter]
        stores = [use for use in uses if isinstance(use.ctx, ast.Store)]
        shadow = _shadowed_from_the_start(definition, parameter)
        if shadow is None and any(_may_write(use, parents) for use in uses):
            continue
        rebinding = shadow or (stores[0] if stores else None)
        line = code.co_firstlineno - 1 + (definition if rebinding is None else rebinding).lineno
        found.append(Unwritten(parameter, line, rebinding is not None))
    return tuple(found)


def _definition(code: types.CodeType) -> ast.FunctionDef | None:
    """The syntax tree of a function."""
    try:
        (definition,) = parse("".join(_source_lines(code))).body
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return None
    return definition if isinstance(definition, ast.FunctionDef) and definition.name == code.co_name else None


def _source_lines(code: types.CodeType) -> list[str]:
    """The source of a function, as ``inspect.getsourcelines`` reads it.

    That function first looks through all imported modules for the one that has the file. It needs it for modules
    without a file, such as modules in an archive.

    Raises:
        OSError: There is no source.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    if len(lines) < code.co_firstlineno:
        return inspect.getsourcelines(code)[0]
    return inspect.getblock(lines[code.co_firstlineno - 1 :])


def _always_raises(definition: ast.FunctionDef) -> bool:
    return any(isinstance(statement, ast.Raise) for statement in definition.body)


def _shadowed_from_the_start(definition: ast.FunctionDef, parameter: str) -> ast.stmt | None:
    """The statement that gives a parameter another value before anything uses it, if there is one."""
    for statement in definition.body:
        uses = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id == parameter]
        if uses:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            plain = any(isinstance(target, ast.Name) and target.id == parameter for target in targets)
            return statement if plain and all(isinstance(use.ctx, ast.Store) for use in uses) else None
    return None


def _may_write(use: ast.Name, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether something may be written to an array through this use of its name."""
    parent = parents[use]
    if isinstance(use.ctx, ast.Store):
        return isinstance(parent, ast.AugAssign)  # in place
    if isinstance(use.ctx, ast.Del):
        return False
    if isinstance(parent, ast.Attribute):
        return parent.attr not in _READ or not isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.Call):
        return not (isinstance(parent.func, ast.Name) and parent.func.id == "len")
    if isinstance(parent, ast.Subscript) and parent.value is use and isinstance(parent.ctx, ast.Load):
        # An element, or a view, which arithmetic only reads.
        return not isinstance(parents[parent], ast.BinOp | ast.UnaryOp | ast.Compare)
    return not isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare)
