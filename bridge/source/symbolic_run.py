"""Runs the syntax of a kernel once for all threads and iterations, with symbols for values.

The rules of the values are in :mod:`bridge.source.symbols`, and what the kernel does with elements goes to a
:class:`bridge.source.element_log.ElementLog`. Functions that get arrays are run too. What is not understood ends the
run.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge.source import loop_syntax
from bridge.source.affine import Affine, Counter
from bridge.source.compiled_from import compiled_from
from bridge.source.element_log import ElementLog
from bridge.source.language_rules import LanguageRules, Source, TouchedElements, is_arithmetic, key_of, touched_by
from bridge.source.meanings import Meanings
from bridge.source.symbols import (
    UNKNOWN,
    Array,
    AtMost,
    Below,
    Object,
    Shape,
    Size,
    Unclear,
    Unknown,
    combined,
    constant,
    counted,
    holds_array,
    is_cast,
    is_exact,
    is_range,
    joined,
    reads_of,
    scalar,
)

_DEPTH = 10
"""Functions that call each other deeper than this are not followed."""


@dataclass
class _Frame:
    """A running function: its variables, and the values that it has returned so far."""

    source: Source
    meanings: Meanings
    names: dict[str, Any]
    local: frozenset[str]
    returned: list[Any] = field(default_factory=list)


class SymbolicRun:
    """Runs a kernel with symbols for values.

    Args:
        ranks: Rank of each array.
        rules: What the language of the kernel makes of Python source.

    Attributes:
        log: What the kernel does with the elements of its arrays.
    """

    def __init__(self, ranks: Sequence[int], rules: LanguageRules):
        self.log = ElementLog(ranks, rules.largest_index)
        self._ranks = ranks
        self._rules = rules
        self._loops: tuple[Counter, ...] = ()
        self._limits: dict[Size, Affine] = {}
        self._depth = 0
        self._in_parallel = False

    def call(self, source: Source, arguments: Sequence[Any]) -> Any:
        """Runs a function; returns its result.

        Raises:
            Unclear: Something about it is not understood.
        """
        definition, meanings = compiled_from(source.function.__code__), self._rules.meanings(source.function)
        if definition is None or meanings is None or self._depth == _DEPTH:
            raise Unclear
        parameters = definition.args
        names = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
        if len(arguments) > len(names):
            raise Unclear  # more in *args
        given = dict(zip(names, arguments, strict=False))
        values = {name: given.get(name, UNKNOWN) for name in names}
        frame = _Frame(source, meanings, values, _local_names(source.function))
        self._depth += 1
        try:
            ends = self._block(frame, definition.body)
        finally:
            self._depth -= 1
        returned = [*frame.returned, *([] if ends else [UNKNOWN])]
        if not returned:  # it ends with an exception in every case
            raise Unclear
        return functools.reduce(joined, returned)

    # Statements. Each returns whether nothing after it in its block runs.

    def _block(self, frame: _Frame, statements: Sequence[ast.stmt]) -> bool:
        return any(self._statement(frame, statement) for statement in statements)

    def _statement(self, frame: _Frame, node: ast.stmt) -> bool:
        match node:
            case ast.Pass():
                return False
            case ast.Expr(value=value):
                self._value(frame, value)
            case ast.Assign(targets=targets, value=value):
                if isinstance(value, ast.Tuple) and self._rules.reads_late and loop_syntax.has_element(value):
                    raise Unclear
                result = self._value(frame, value)
                for target in targets:
                    self._assign(frame, target, result)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign(frame, target, self._value(frame, value))
            case ast.AugAssign(target=target, op=op, value=value):
                if isinstance(target, ast.Name):
                    before = self._value(frame, ast.Name(target.id, ast.Load()))
                    self._assign(frame, target, combined(op, before, self._value(frame, value)))
                else:
                    self._assign(frame, target, scalar(self._value(frame, value)))
            case ast.If():
                return self._if(frame, node)
            case ast.For():
                return self._for(frame, node)
            case ast.While():
                return self._while(frame, node)
            case ast.Return(value=value):
                frame.returned.append(UNKNOWN if value is None else self._value(frame, value))
                return True
            case ast.Raise(exc=error):
                if error is not None:
                    self._value(frame, error)
                return True
            case ast.Assert(test=test):
                self._value(frame, test)
            case ast.Break() | ast.Continue():
                return True
            case _:
                raise Unclear
        return False

    def _assign(self, frame: _Frame, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            frame.names[target.id] = value
        elif isinstance(target, ast.Subscript):
            base = self._value(frame, target.value)
            index = self._value(frame, target.slice)
            if holds_array(value) or holds_array(index):
                raise Unclear
            if isinstance(base, Array):
                self._write(base, index, value)
            elif not isinstance(base, Unknown) or not isinstance(target.value, ast.Name):
                raise Unclear  # perhaps a part of an element of an array
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple) and len(value) == len(target.elts):
            for one, part in zip(target.elts, value, strict=True):
                self._assign(frame, one, part)
        elif isinstance(target, ast.Tuple) and not holds_array(value):
            for one in target.elts:
                self._assign(frame, one, UNKNOWN)
        else:
            raise Unclear

    def _if(self, frame: _Frame, node: ast.If) -> bool:
        condition = self._value(frame, node.test)
        names, path, limits = dict(frame.names), self.log.path, dict(self._limits)
        first_ends = self._block(frame, node.body)
        first, first_path = frame.names, self.log.path
        frame.names, self.log.path = names, path
        if isinstance(condition, Below) and isinstance(condition.size, Size):
            self._limits = {**limits, condition.size: condition.index}  # here the size is not above the index
        second_ends = self._block(frame, node.orelse)
        self._limits = limits
        self.log.path = self.log.path.merged(first_path)
        if second_ends:
            frame.names = first
        elif not first_ends:
            second = frame.names
            frame.names = {
                name: joined(first.get(name, UNKNOWN), second.get(name, UNKNOWN)) for name in {*first, *second}
            }
        return first_ends and second_ends

    def _for(self, frame: _Frame, node: ast.For) -> bool:
        counter: Counter = Counter()
        value: Any = UNKNOWN
        if isinstance(node.iter, ast.Call) and is_range(_target(self._value(frame, node.iter.func))):
            arguments = [self._value(frame, argument) for argument in node.iter.args]
            counter, value = counted(arguments, self._rules.largest_index)
        elif holds_array(self._value(frame, node.iter)):
            raise Unclear
        self._loop(frame, node, counter, node.target, value)
        return False

    def _while(self, frame: _Frame, node: ast.While) -> bool:
        counter = Counter()
        name: ast.Name | None = None
        value: Any = UNKNOWN
        if (found := loop_syntax.steps(node)) is not None:
            first, distance = frame.names.get(found[0]), self._value(frame, found[1])
            if isinstance(first, Affine) and isinstance(distance, Affine) and (step := distance.value or 0) > 0:
                turns, is_below = self._turns(frame, node, found[0], step)
                if is_below or is_exact(Affine.of(Counter(), step), self._rules.largest_index):
                    counter = Counter(turns, step)
                    name, value = ast.Name(found[0], ast.Store()), first + Affine.of(counter, step)
        self._loop(frame, node, counter, name, value)
        return False

    def _turns(self, frame: _Frame, node: ast.While, name: str, step: int) -> tuple[int | None, bool]:
        """How often a loop runs at most, if that is known, and whether its variable stays below a size or limit."""
        # The test runs once more than the body. Elements in it are logged here, before the loop, and again in the loop:
        # elements that different loops use are never apart.
        condition, first = self._value(frame, node.test), frame.names[name]
        if not isinstance(condition, Below) or not loop_syntax.compares(node, name):
            return None, False
        size = condition.size
        limit = size.index if isinstance(size, AtMost) else self._limits.get(size)
        if not self._is_exact(limit) or not self._is_exact(first):
            return None, True
        most = (limit + first.times(-1)).value
        return None if most is None else max(0, -(-most // step)), True

    def _loop(
        self, frame: _Frame, node: ast.For | ast.While, counter: Counter, target: ast.expr | None, value: Any
    ) -> None:
        """Runs the body of a loop once, for any iteration, with a value for the variable of the loop."""
        changed = set(loop_syntax.stores(node))
        for name in changed:
            if holds_array(frame.names.get(name)):
                raise Unclear
            frame.names[name] = UNKNOWN
        before = self._loops, self._limits, self._in_parallel
        self._loops, self._limits = (*self._loops, counter), {}
        self._in_parallel = self._in_parallel or frame.source.is_parallel
        if target is not None:
            self._assign(frame, target, value)
        if isinstance(node, ast.While):
            self._value(frame, node.test)
        self._block(frame, node.body)
        self._loops, self._limits, self._in_parallel = before
        for name in changed:
            if holds_array(frame.names.get(name)):
                raise Unclear
            frame.names[name] = UNKNOWN
        self._block(frame, node.orelse)

    # Expressions.

    def _value(self, frame: _Frame, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return Affine(value) if type(value) is int else UNKNOWN
            case ast.Name(id=name):
                return self._name(frame, name)
            case ast.Attribute(value=base, attr=name):
                return self._attribute(frame, self._value(frame, base), name)
            case ast.Subscript(value=base, slice=index):
                return self._element(self._value(frame, base), self._value(frame, index))
            case ast.Tuple(elts=parts):
                return tuple(self._value(frame, part) for part in parts)
            case ast.BinOp(left=left, op=op, right=right):
                return combined(op, self._value(frame, left), self._value(frame, right))
            case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]):
                one, other = self._value(frame, left), self._value(frame, right)
                return (
                    Below(one, other)
                    if isinstance(one, Affine) and isinstance(other, Size | AtMost)
                    else scalar(one, other)
                )
            case ast.IfExp(test=test, body=one, orelse=other):
                if self._rules.reads_late and loop_syntax.has_element(node):
                    raise Unclear
                condition = self._value(frame, test)
                result = joined(self._value(frame, one), self._value(frame, other))
                differ = ast.dump(one) != ast.dump(other)
                return Unknown(result.reads | reads_of(condition)) if isinstance(result, Unknown) and differ else result
            case ast.Call():
                return self._called(frame, node)
            case ast.BoolOp(values=[first, *others]):
                result = scalar(self._value(frame, first))
                scalar(*(self._value(frame, other) for other in others))  # these may not be needed
                return result
            case ast.UnaryOp() | ast.Compare() | ast.JoinedStr() | ast.FormattedValue():
                parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
                return scalar(*(self._value(frame, part) for part in parts))
            case _:
                raise Unclear

    def _name(self, frame: _Frame, name: str) -> Any:
        if name in frame.local:
            return frame.names.get(name, UNKNOWN)
        if name not in frame.meanings.names:
            raise Unclear
        return constant(frame.meanings.names[name])

    def _attribute(self, frame: _Frame, base: Any, name: str) -> Any:
        if isinstance(base, Array):
            if name not in ("size", "shape", "ndim", "dtype"):
                raise Unclear
            if name == "size":
                return Size(base.number, 0 if self._ranks[base.number] == 1 else None)
            return Shape(base.number) if name == "shape" else UNKNOWN
        if not isinstance(base, Object):
            scalar(base)
            return UNKNOWN  # a part of the value need not be computed from all of it
        if (known := self._rules.attributes.get((key_of(base.value), name))) is not None:
            return known
        if not isinstance(base.value, types.ModuleType):
            return UNKNOWN
        if (base.value, name) in frame.meanings.attributes:
            return constant(frame.meanings.attributes[base.value, name])
        return Object(f"{base.value.__name__}.{name}")

    def _element(self, base: Any, index: Any) -> Any:
        if holds_array(index):
            raise Unclear
        if isinstance(base, Array):
            return self.log.read(base, index, self._loops)
        at = index.value if isinstance(index, Affine) else None
        if isinstance(base, tuple) and at is not None and 0 <= at < len(base):
            return base[at]
        if isinstance(base, Shape) and at is not None and 0 <= at < self._ranks[base.array]:
            return Size(base.array, at)
        scalar(base)
        return UNKNOWN

    def _write(self, array: Array, index: Any, value: Any) -> None:
        self.log.write(array, index, self._loops, value, may_move=self._in_parallel)

    def _called(self, frame: _Frame, node: ast.Call) -> Any:
        function = self._value(frame, node.func)
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise Unclear
        arguments = [self._value(frame, argument) for argument in node.args]
        named = [self._value(frame, keyword.value) for keyword in node.keywords]
        if holds_array(function):
            raise Unclear
        gets_array = any(map(holds_array, (*arguments, *named)))
        target = _target(function)
        if target is len and gets_array and isinstance(arguments[0], Array) and len(arguments) == 1:
            return Size(arguments[0].number, 0)
        if (touched := touched_by(target)) is not None and not named:
            return self._touch(touched, arguments)
        if target is min:
            limits = [each for each in arguments if isinstance(each, Affine)]
            needed = scalar(*arguments)
            return AtMost(limits[0], needed.reads) if limits else needed
        source = None if named else self._rules.follow(target)
        if gets_array and source is None:
            raise Unclear
        known = self._rules.calls.get(key_of(target))
        if known is not None and not named:
            return known(*arguments) or UNKNOWN
        if is_cast(target) and len(arguments) == 1:
            return arguments[0] if isinstance(arguments[0], Affine | Size) else scalar(*arguments)
        if source is not None:
            return self._followed(source, arguments, gets_array)
        return scalar(*arguments) if is_arithmetic(target) and not named else UNKNOWN

    def _touch(self, touched: TouchedElements, arguments: Sequence[Any]) -> Any:
        array, *others = arguments
        if not isinstance(array, Array) or any(map(holds_array, others)):
            raise Unclear
        elements = []
        for neighbour in range(touched.count):
            index = others[0] + Affine(neighbour) if isinstance(others[0], Affine) else UNKNOWN
            if touched.writes:
                self._write(array, index, UNKNOWN)
            else:
                elements.append(self.log.read(array, index, self._loops))
        return tuple(elements) or UNKNOWN

    def _followed(self, source: Source, arguments: Sequence[Any], gets_array: bool) -> Any:
        before = self._loops, self._limits, self._in_parallel
        try:
            return self.call(source, arguments)
        except Unclear:
            if gets_array:
                raise
            self._loops, self._limits, self._in_parallel = before
            return UNKNOWN

    def _is_exact(self, value: Any) -> bool:
        return is_exact(value, self._rules.largest_index)


def _target(function: Any) -> Any:
    """The object that is called; None if it is not known."""
    return function.value if isinstance(function, Object) else None


def _local_names(function: types.FunctionType) -> frozenset[str]:
    code = function.__code__
    return frozenset((*code.co_varnames, *code.co_cellvars))
