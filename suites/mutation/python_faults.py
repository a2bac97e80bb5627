"""Finds the places for faults in kernels that are written in Python: for Numba, Numba-CUDA and Warp.

It changes a copy of one node of the syntax tree, and puts the text of that copy in the place of the node. The rest of
the source keeps its text and its lines. Types, decorators, docstrings and annotations stay as they are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from suites.mutation.fault import Fault

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
_OTHER: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod)
_MINMAX = {"min": "max", "max": "min", "fmin": "fmax", "fmax": "fmin", "minimum": "maximum", "maximum": "minimum"}
_NARROWER = {"float64": "float32", "int64": "int32"}
_LEFT_OUT = ("abs", "fabs", "sqrt", "exp", "tanh", "floor", "ceil")
_COORDINATES = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_ON_CUDA = ("kernel", "device", "cuda.jit")
_COMPILED = ("jit", "kernel", "device", "func", "overload", "_reassociated")
_VECTOR = 8  # elements: a usual width of vector instructions


def python_faults(source: str, first_lines: set[int]) -> list[Fault]:
    """Finds every fault that fits into some functions of a module, in the order of the text.

    Args:
        source: The text of the module.
        first_lines: The first line of each function, decorators included, as ``co_firstlineno`` gives it. Functions
            within a function belong to it.
    """
    found: dict[tuple[int, int, str], Fault] = {}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda) and _first_line(node) in first_lines:
            for fault in _Finder(source).faults(node):
                found.setdefault((fault.start, fault.end, fault.text), fault)
    return sorted(found.values(), key=lambda fault: (fault.start, fault.end, fault.text))


def _first_line(node: ast.FunctionDef | ast.Lambda) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


class _Finder:
    """Finds the faults of one function."""

    def __init__(self, source: str):
        self._starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def faults(self, function: ast.FunctionDef | ast.Lambda) -> Iterator[Fault]:
        """Yields the faults of a function and of the functions in it."""
        if isinstance(function, ast.Lambda):
            yield from (replace(fault, in_kernel=False) for fault in self._expressions(function.body))
            return
        decorators = [ast.unparse(decorator).partition("(")[0] for decorator in function.decorator_list]
        on_cuda = any(name in _ON_CUDA for name in decorators)
        in_kernel = any(name.endswith(_COMPILED) for name in decorators)
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        for statement in body:
            if isinstance(statement, ast.FunctionDef):
                yield from self.faults(statement)
                continue
            yield from (replace(fault, in_kernel=in_kernel) for fault in self._statement(statement, on_cuda))

    # Statements.

    def _statement(self, node: ast.stmt, on_cuda: bool) -> Iterator[Fault]:
        if isinstance(node, ast.FunctionDef):
            yield from self.faults(node)
            return
        if (isinstance(node, ast.Return) and node.value is None) or isinstance(node, ast.Break | ast.Continue):
            yield self._fault("exit", node, ast.Pass())
        elif isinstance(node, ast.AugAssign):
            yield from self._augmented(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            yield self._fault("statement", node, ast.Pass())
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from self._called(node, node.value)
        elif isinstance(node, ast.If):
            yield self._fault("guard", node.test, ast.Constant(True))
            yield self._fault("guard", node.test, ast.Constant(False))
        elif isinstance(node, ast.Assign):
            yield from self._assigned(node)
        for name, value in ast.iter_fields(node):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.stmt):
                    yield from self._statement(each, on_cuda)
                elif isinstance(each, ast.expr) and name != "annotation":
                    yield from self._expressions(each, on_cuda=on_cuda)

    def _augmented(self, node: ast.AugAssign) -> Iterator[Fault]:
        yield self._fault("statement", node, ast.Pass())
        other = _OTHER.get(type(node.op))
        if other is not None:
            yield self._fault("arithmetic", node, _with(node, op=other()))
        plain = ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno)
        yield self._fault("statement", node, plain)

    def _called(self, node: ast.Expr, call: ast.Call) -> Iterator[Fault]:
        name = ast.unparse(call.func)
        if name.endswith(("syncthreads", "syncwarp", "grid.sync")):
            yield self._fault("sync", node, ast.Pass())
            return
        yield self._fault("statement", node, ast.Pass())
        if name in ("cuda.atomic.add", "wp.atomic_add") and len(call.args) >= 3:
            array, *indices, value = call.args
            index = indices[0] if len(indices) == 1 else ast.Tuple(indices, ast.Load())
            place = ast.unparse(ast.Subscript(array, index, ast.Load()))
            plain = ast.parse(f"{place} = {place} + {ast.unparse(value)}").body[0]
            yield self._fault("atomic", node, plain)

    def _assigned(self, node: ast.Assign) -> Iterator[Fault]:
        """A tuple that is taken apart, such as ``rows, columns = A.shape``, in another order."""
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and len(target.elts) == 2 and _is_shape(value):
            yield self._fault("axis", target, _with(target, elts=target.elts[::-1]), parentheses=False)

    # Expressions.

    def _expressions(self, node: ast.expr, on_cuda: bool = False) -> Iterator[Fault]:
        yield from self._expression(node, on_cuda)
        is_shape = isinstance(node, ast.Subscript) and _is_shape(node.value)
        for name, value in ast.iter_fields(node):
            for each in value if isinstance(value, list) else [value]:
                each = each.value if isinstance(each, ast.keyword) else each
                if isinstance(each, ast.comprehension):
                    yield from self._expressions(each.iter, on_cuda)
                elif isinstance(each, ast.expr) and not (is_shape and name == "slice"):
                    yield from self._expressions(each, on_cuda)

    def _expression(self, node: ast.expr, on_cuda: bool) -> Iterator[Fault]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            for other in _COMPARED.get(type(node.ops[0]), ()):
                yield self._fault("compare", node, _with(node, ops=[other()]))
        elif isinstance(node, ast.BinOp):
            yield from self._arithmetic(node)
        elif isinstance(node, ast.BoolOp):
            yield self._fault("logic", node, _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))
        elif isinstance(node, ast.UnaryOp):
            yield from self._unary(node)
        elif isinstance(node, ast.IfExp):
            yield self._fault("guard", node, node.body)
            yield self._fault("guard", node, node.orelse)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Subscript):
            yield from self._subscript(node, on_cuda)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node)
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)

    def _arithmetic(self, node: ast.BinOp) -> Iterator[Fault]:
        rounded_up = _rounded_up(node)
        if rounded_up is not None:
            yield self._fault("tail", node, rounded_up)
        other = _OTHER.get(type(node.op))
        if other is not None:
            yield self._fault("arithmetic", node, _with(node, op=other()))
        if isinstance(node.op, _ORDERED) and ast.dump(node.left) != ast.dump(node.right):
            yield self._fault("operands", node, _with(node, left=node.right, right=node.left))

    def _unary(self, node: ast.UnaryOp) -> Iterator[Fault]:
        inner: Any = node.operand
        if isinstance(node.op, ast.Not):
            yield self._fault("logic", node, inner)
        elif isinstance(node.op, ast.USub):
            is_ceiling = isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.FloorDiv)
            if is_ceiling and isinstance(inner.left, ast.UnaryOp) and isinstance(inner.left.op, ast.USub):
                yield self._fault("tail", node, _with(inner, left=inner.left.operand))
            else:
                yield self._fault("logic", node, inner)

    def _call(self, node: ast.Call) -> Iterator[Fault]:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in ("range", "prange"):
            yield from self._range(node)
        if name in _MINMAX and len(node.args) > 1:
            yield self._fault("minmax", node, _with(node, func=_renamed(function, _MINMAX[name])))
        if name in _LEFT_OUT and len(node.args) == 1:
            yield self._fault("call", node, node.args[0])
        if name == "type" and isinstance(function, ast.Attribute) and ast.unparse(function).endswith(".dtype.type"):
            yield self._fault("narrow", node, _with(node, func=ast.parse("np.float32", mode="eval").body))
        if name == "where" and len(node.args) == 3:
            yield self._fault("guard", node, node.args[1])
            yield self._fault("guard", node, node.args[2])

    def _range(self, node: ast.Call) -> Iterator[Fault]:
        arguments = node.args
        place = 0 if len(arguments) == 1 else 1
        stop = arguments[place]
        for change in (" - 1", " + 1"):
            changed = list(arguments)
            changed[place] = _parsed(f"({ast.unparse(stop)}){change}")
            yield self._fault("bound", node, _with(node, args=changed))
        if len(arguments) == 1:
            later = [ast.Constant(1), stop]
        else:
            later = [_parsed(f"({ast.unparse(arguments[0])}) + 1"), *arguments[1:]]
        yield self._fault("bound", node, _with(node, args=later))
        if len(arguments) < 3 and not isinstance(stop, ast.Constant):
            whole = list(arguments)
            whole[place] = _parsed(f"({ast.unparse(stop)}) // {_VECTOR} * {_VECTOR}")
            yield self._fault("tail", node, _with(node, args=whole))

    def _subscript(self, node: ast.Subscript, on_cuda: bool) -> Iterator[Fault]:
        index = node.slice
        if _is_shape(node.value):
            if isinstance(index, ast.Constant) and index.value in (0, 1):
                yield self._fault("axis", node, _with(node, slice=ast.Constant(1 - index.value)))
            return
        if isinstance(index, ast.Slice):
            if index.lower is not None:
                lower = _parsed(f"({ast.unparse(index.lower)}) + 1")
                yield self._fault("bound", node, _with(node, slice=_with(index, lower=lower)))
            if index.upper is not None:
                upper = _parsed(f"({ast.unparse(index.upper)}) - 1")
                yield self._fault("bound", node, _with(node, slice=_with(index, upper=upper)))
            return
        if isinstance(index, ast.Tuple):
            if len(index.elts) == 2 and ast.dump(index.elts[0]) != ast.dump(index.elts[1]):
                swapped = _with(index, elts=index.elts[::-1])
                yield self._fault("axis", node, _with(node, slice=swapped))
            return
        if isinstance(index, ast.Constant):
            return  # a number, which becomes another number
        text = ast.unparse(index)
        # In Numba-CUDA the sum of an unsigned index and a literal is a float. These are the same numbers.
        for changed in (f"-~({text})", f"~-({text})") if on_cuda else (f"({text}) + 1", f"({text}) - 1"):
            yield self._fault("index", node, _with(node, slice=_parsed(changed)))

    def _attribute(self, node: ast.Attribute) -> Iterator[Fault]:
        owner = node.value
        if node.attr in _NARROWER and isinstance(owner, ast.Name) and owner.id in ("np", "wp"):
            yield self._fault("narrow", node, _renamed(node, _NARROWER[node.attr]))
        if node.attr in ("x", "y") and isinstance(owner, ast.Attribute) and owner.attr in _COORDINATES:
            yield self._fault("axis", node, _renamed(node, "y" if node.attr == "x" else "x"))

    def _constant(self, node: ast.Constant) -> Iterator[Fault]:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if isinstance(value, int):
            others: list[Any] = [value + 1] if value < 2 else [value + 1, value - 1]
        else:
            others = [1.0] if value == 0 else [value * 1.01]
        for other in others:
            yield self._fault("initial" if value == 0 else "constant", node, ast.Constant(other))

    def _fault(self, kind: str, node: Any, other: ast.AST, parentheses: bool | None = None) -> Fault:
        text = ast.unparse(other)
        compound = isinstance(other, ast.BinOp | ast.BoolOp | ast.Compare | ast.UnaryOp | ast.IfExp | ast.Tuple)
        return Fault(
            kind=kind,
            line=node.lineno,
            start=self._starts[node.lineno - 1] + node.col_offset,
            end=self._starts[node.end_lineno - 1] + node.end_col_offset,
            text=f"({text})" if compound and parentheses is not False else text,
            before=ast.unparse(node),
            after=text,
        )


def _with(node: Any, **changes: Any) -> Any:
    """Returns a copy of a node with other fields."""
    changed = copy.copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _renamed(node: ast.expr, name: str) -> ast.expr:
    return _with(node, attr=name) if isinstance(node, ast.Attribute) else ast.Name(name, ast.Load())


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _is_shape(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _rounded_up(node: ast.BinOp) -> ast.expr | None:
    """Returns ``a // b`` for ``(a + b - 1) // b``; None for another expression."""
    match node:
        case ast.BinOp(ast.BinOp(ast.BinOp(count, ast.Add(), added), ast.Sub()), ast.FloorDiv(), divisor):
            return _with(node, left=count) if ast.dump(added) == ast.dump(divisor) else None
    return None
