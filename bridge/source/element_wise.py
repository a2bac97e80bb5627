"""Shows from the source of a kernel that it may work in place: that an output may be the memory of an input.

That is so if every element of the input is read only by the thread, and in the iteration, that writes this element of
the output, and before it is written. The source is run with symbols for values: an index is a sum of counters (see
:mod:`bridge.source.affine`), and everything else is unknown. Functions that get arrays are run too. Whatever is not
understood counts against the kernel.
"""

from __future__ import annotations

import ast
import builtins
import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge.source.affine import Access, Affine, Counter, are_apart
from bridge.source.compiled_from import compiled_from

_DEPTH = 10
"""Functions that call each other deeper than this are not followed."""


@dataclass(frozen=True)
class ThreadIndices:
    """How a kernel learns which thread it is.

    Attributes:
        counters: The counters of the threads of a launch.
        attributes: Values of attributes, by the object (a name with dots for what is no object) and the attribute.
        calls: Functions of the language, in the same way: each takes the values of its arguments and returns a value,
            or None if it is unknown.
        functions: The types of the functions that are compiled from their Python source, and so can be followed. If
            there are none, the language may also read an element later than its source says, where it has another name.
    """

    counters: tuple[Counter, ...] = ()
    attributes: Mapping[tuple[Any, str], Any] = field(default_factory=dict)
    calls: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    functions: tuple[type, ...] = ()


def in_place_pairs(
    function: Any, ranks: Sequence[int], input_count: int, threads: ThreadIndices
) -> frozenset[tuple[int, int]]:
    """Pairs of an input and an output of a kernel that may share memory if they have one shape and dtype.

    Args:
        function: The Python function of the kernel. It takes inputs, then outputs.
        ranks: Rank of each array that it takes.
        input_count: How many of them are inputs.
        threads: How it learns which thread it is.

    Returns:
        Pairs of input and output index; none if the source is not available, or not understood.
    """
    pairs = shareable_parameters(function, ranks, threads)
    return frozenset((one, other - input_count) for one, other in pairs if one < input_count <= other)


def shareable_parameters(
    function: Any, ranks: Sequence[int | None], threads: ThreadIndices
) -> frozenset[tuple[int, int]]:
    """Pairs of parameters of a kernel, one that it only reads and one that it writes, which may share memory.

    Args:
        function: The Python function of the kernel.
        ranks: Rank of each parameter; None for one that is no array.
        threads: How it learns which thread it is.
    """
    run = _Run([rank or 0 for rank in ranks], threads)
    try:
        run.call(function, [_UNKNOWN if rank is None else _Array(index) for index, rank in enumerate(ranks)])
    except (_Unclear, RecursionError):
        return frozenset()
    arrays = [index for index, rank in enumerate(ranks) if rank is not None]
    return frozenset((one, other) for one in arrays for other in arrays if run.may_share(one, other))


@dataclass(frozen=True)
class _Touched:
    """The elements of its first argument that a function uses, whatever it is compiled to.

    Attributes:
        count: How many neighbours, from the index that is its second argument; 0 if it uses none.
        writes: Whether it writes them, and does not read them.
    """

    count: int = 0
    writes: bool = False


_TOUCHED: dict[int, tuple[Any, _Touched]] = {}


def declare_touched(function: Any, count: int = 0, *, writes: bool = False) -> None:
    """Says which elements of a vector a function of an extension uses, whose code is not its Python source.

    Args:
        function: The function, as kernels name it. Its arguments are a vector, an index, and others.
        count: How many neighbours it uses, from the index on.
        writes: Whether it writes them. If not, it returns a tuple of them.
    """
    _TOUCHED[id(function)] = function, _Touched(count, writes)


class _Unclear(Exception):
    """The source does something with an array, or with an index, that is not understood."""


@dataclass(frozen=True)
class _Array:
    """A parameter of the kernel, by its number."""

    number: int


@dataclass(frozen=True)
class _Size:
    """An extent of an array; the number of its elements if there is no axis."""

    array: int
    axis: int | None = None


@dataclass(frozen=True)
class _Shape:
    array: int


@dataclass(frozen=True)
class _AtMost:
    """A number that is not above an index."""

    index: Affine


@dataclass(frozen=True)
class _Below:
    """The condition that an index is below a size, or below a number that has a limit."""

    index: Affine
    size: _Size | _AtMost


@dataclass(frozen=True, eq=False)
class _Object:
    """A Python object that the source names, or the name of one that exists only for the compiler."""

    value: Any


class _Unknown:
    """A value of which nothing is known, but that it is no array."""


_UNKNOWN = _Unknown()
_CAST_NAMES = frozenset({"int64", "uint64", "intp", "uintp"})
"""Types that hold every index, so that they do not change it."""


def _holds_array(value: Any) -> bool:
    return isinstance(value, _Array) or (isinstance(value, tuple) and any(map(_holds_array, value)))


def _joined(one: Any, other: Any) -> Any:
    """The value of a name after two branches."""
    if one is other or (type(one) is type(other) and one == other):
        return one
    if _holds_array(one) or _holds_array(other):
        raise _Unclear
    return _UNKNOWN


@dataclass
class _Frame:
    """A running function: its variables, and the values that it has returned so far."""

    function: types.FunctionType
    names: dict[str, Any]
    local: frozenset[str]
    returned: list[Any] = field(default_factory=list)


class _Run:
    """Runs a kernel with symbols for values.

    Args:
        ranks: Rank of each array.
        threads: How the kernel learns which thread it is.
    """

    def __init__(self, ranks: Sequence[int], threads: ThreadIndices):
        self._ranks = ranks
        self._threads = threads
        self._accesses: set[Access] = set()
        self._written: set[int] = set()
        self._read_late: set[tuple[int, int]] = set()
        self._loops: tuple[Counter, ...] = ()
        self._limits: dict[_Size, Affine] = {}
        self._depth = 0

    def may_share(self, one: int, other: int) -> bool:
        """Whether an input may have the memory of an output."""
        used = [access for access in self._accesses if access.array in (one, other)]
        return (
            self._ranks[one] == self._ranks[other]
            and other in self._written
            and one not in self._written
            and (one, other) not in self._read_late
            and are_apart(used, self._threads.counters)
        )

    def call(self, function: Any, arguments: Sequence[Any]) -> Any:
        """Runs a function; returns its result."""
        python = getattr(function, "py_func", function)
        definition = _source(python)
        if definition is None or self._depth == _DEPTH:
            raise _Unclear
        parameters = definition.args
        names = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
        if parameters.vararg or parameters.kwarg or parameters.kwonlyargs or len(arguments) > len(names):
            raise _Unclear
        given = dict(zip(names, arguments, strict=False))
        frame = _Frame(python, {name: given.get(name, _UNKNOWN) for name in names}, _local_names(python))
        self._depth += 1
        try:
            ends = self._block(frame, definition.body)
        finally:
            self._depth -= 1
        returned = [*frame.returned, *([] if ends else [_UNKNOWN])]
        if not returned:  # it ends with an exception in every case
            raise _Unclear
        return functools.reduce(_joined, returned)

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
                if isinstance(value, ast.Tuple) and not self._threads.functions and _has_element(value):
                    raise _Unclear
                result = self._value(frame, value)
                for target in targets:
                    self._assign(frame, target, result)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign(frame, target, self._value(frame, value))
            case ast.AugAssign(target=target, op=op, value=value):
                if isinstance(target, ast.Name):
                    before = self._value(frame, ast.Name(target.id, ast.Load()))
                    self._assign(frame, target, self._combined(op, before, self._value(frame, value)))
                else:
                    self._value(frame, value)
                    self._assign(frame, target, _UNKNOWN)
            case ast.If():
                return self._if(frame, node)
            case ast.For():
                return self._for(frame, node)
            case ast.While():
                return self._while(frame, node)
            case ast.Return(value=value):
                frame.returned.append(_UNKNOWN if value is None else self._value(frame, value))
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
                raise _Unclear
        return False

    def _assign(self, frame: _Frame, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            frame.names[target.id] = value
        elif isinstance(target, ast.Subscript):
            base = self._value(frame, target.value)
            index = self._value(frame, target.slice)
            if _holds_array(value) or _holds_array(index):
                raise _Unclear
            if isinstance(base, _Array):
                self._access(base, index)
                self._written.add(base.number)
            elif base is not _UNKNOWN or not isinstance(target.value, ast.Name):
                raise _Unclear  # perhaps a part of an element of an array
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple) and len(value) == len(target.elts):
            for one, part in zip(target.elts, value, strict=True):
                self._assign(frame, one, part)
        elif isinstance(target, ast.Tuple) and not _holds_array(value):
            for one in target.elts:
                self._assign(frame, one, _UNKNOWN)
        else:
            raise _Unclear

    def _if(self, frame: _Frame, node: ast.If) -> bool:
        condition = self._value(frame, node.test)
        names, written, limits = dict(frame.names), set(self._written), dict(self._limits)
        first_ends = self._block(frame, node.body)
        first, first_written = frame.names, self._written
        frame.names, self._written = names, written
        if isinstance(condition, _Below) and isinstance(condition.size, _Size):
            self._limits = {**limits, condition.size: condition.index}  # here the size is not above the index
        second_ends = self._block(frame, node.orelse)
        self._limits = limits
        self._written |= first_written
        if second_ends:
            frame.names = first
        elif not first_ends:
            second = frame.names
            frame.names = {
                name: _joined(first.get(name, _UNKNOWN), second.get(name, _UNKNOWN)) for name in {*first, *second}
            }
        return first_ends and second_ends

    def _for(self, frame: _Frame, node: ast.For) -> bool:
        counter, value = Counter(), _UNKNOWN
        if isinstance(node.iter, ast.Call) and self._is_range(self._value(frame, node.iter.func)):
            arguments = [self._value(frame, argument) for argument in node.iter.args]
            counter, value = _counted(arguments)
        elif _holds_array(self._value(frame, node.iter)):
            raise _Unclear
        self._loop(frame, node, counter, node.target, value)
        return False

    def _while(self, frame: _Frame, node: ast.While) -> bool:
        counter = Counter()
        name: ast.Name | None = None
        value: Any = _UNKNOWN
        if (found := _steps(node)) is not None:
            first, distance = frame.names.get(found[0]), self._value(frame, found[1])
            if isinstance(first, Affine) and isinstance(distance, Affine) and (factor := distance.value or 0) > 0:
                counter = Counter(self._turns(frame, node, found[0], factor))
                name, value = ast.Name(found[0], ast.Store()), first + Affine.of(counter, factor)
        self._loop(frame, node, counter, name, value)
        return False

    def _turns(self, frame: _Frame, node: ast.While, name: str, step: int) -> int | None:
        """How often a loop runs at most while an index is below a size, if that size is known to be limited."""
        condition, first = self._value(frame, node.test), frame.names[name]
        if not isinstance(condition, _Below) or condition.index != first:
            return None
        if _names(node.test) & set(_stores(node)) != {name}:  # the loop may change the size
            return None
        size = condition.size
        limit = size.index if isinstance(size, _AtMost) else self._limits.get(size)
        if limit is None:
            return None
        most = (limit + first.times(-1)).value
        return None if most is None else max(0, -(-most // step))

    def _loop(
        self, frame: _Frame, node: ast.For | ast.While, counter: Counter, target: ast.expr | None, value: Any
    ) -> None:
        """Runs the body of a loop once, for any iteration, with a value for the variable of the loop."""
        changed = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        for name in changed:
            if _holds_array(frame.names.get(name)):
                raise _Unclear
            frame.names[name] = _UNKNOWN
        before, limits = self._loops, self._limits
        self._loops, self._limits = (*before, counter), {}
        if target is not None:
            self._assign(frame, target, value)
        if isinstance(node, ast.While):
            self._value(frame, node.test)
        self._block(frame, node.body)
        self._loops, self._limits = before, limits
        for name in changed:
            if _holds_array(frame.names.get(name)):
                raise _Unclear
            frame.names[name] = _UNKNOWN
        self._block(frame, node.orelse)

    # Expressions.

    def _value(self, frame: _Frame, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return Affine(value) if type(value) is int else _UNKNOWN
            case ast.Name(id=name):
                return self._name(frame, name)
            case ast.Attribute(value=base, attr=name):
                return self._attribute(self._value(frame, base), name)
            case ast.Subscript(value=base, slice=index):
                return self._element(self._value(frame, base), self._value(frame, index))
            case ast.Tuple(elts=parts):
                return tuple(self._value(frame, part) for part in parts)
            case ast.BinOp(left=left, op=op, right=right):
                return self._combined(op, self._value(frame, left), self._value(frame, right))
            case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]):
                one, other = self._value(frame, left), self._value(frame, right)
                return (
                    _Below(one, other)
                    if isinstance(one, Affine) and isinstance(other, _Size | _AtMost)
                    else _scalar(one, other)
                )
            case ast.IfExp(test=test, body=one, orelse=other):
                if not self._threads.functions and _has_element(node):
                    raise _Unclear
                self._value(frame, test)
                return _joined(self._value(frame, one), self._value(frame, other))
            case ast.Call():
                return self._called(frame, node)
            case ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.JoinedStr() | ast.FormattedValue():
                parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
                return _scalar(*(self._value(frame, part) for part in parts))
            case _:
                raise _Unclear

    def _name(self, frame: _Frame, name: str) -> Any:
        if name in frame.local:
            return frame.names.get(name, _UNKNOWN)
        return _constant(_resolved(frame.function, name))

    def _attribute(self, base: Any, name: str) -> Any:
        if isinstance(base, _Array):
            if name not in ("size", "shape", "ndim", "dtype"):
                raise _Unclear
            if name == "size":
                return _Size(base.number, 0 if self._ranks[base.number] == 1 else None)
            return _Shape(base.number) if name == "shape" else _UNKNOWN
        if not isinstance(base, _Object):
            return _scalar(base)
        if (known := self._threads.attributes.get((key_of(base.value), name))) is not None:
            return known
        if not isinstance(base.value, types.ModuleType):
            return _UNKNOWN
        try:
            return _constant(getattr(base.value, name))
        except AttributeError:
            return _Object(f"{base.value.__name__}.{name}")

    def _element(self, base: Any, index: Any) -> Any:
        if _holds_array(index):
            raise _Unclear
        if isinstance(base, _Array):
            self._access(base, index)
            self._read_late |= {(base.number, other) for other in self._written}
            return _UNKNOWN
        at = index.value if isinstance(index, Affine) else None
        if isinstance(base, tuple) and at is not None and 0 <= at < len(base):
            return base[at]
        if isinstance(base, _Shape) and at is not None and 0 <= at < self._ranks[base.array]:
            return _Size(base.array, at)
        return _scalar(base)

    def _access(self, array: _Array, index: Any) -> None:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != self._ranks[array.number] or any(isinstance(each, _Object) for each in indices):
            raise _Unclear  # a view
        known = tuple(each if isinstance(each, Affine) else None for each in indices)
        self._accesses.add(Access(array.number, known, self._loops))

    def _combined(self, op: ast.operator, one: Any, other: Any) -> Any:
        if isinstance(one, Affine) and isinstance(other, Affine):
            if isinstance(op, ast.Add):
                return one + other
            if isinstance(op, ast.Sub):
                return one + other.times(-1)
            if isinstance(op, ast.Mult) and (factor := other.value) is not None:
                return one.times(factor)
            if isinstance(op, ast.Mult) and (factor := one.value) is not None:
                return other.times(factor)
        return _scalar(one, other)

    def _called(self, frame: _Frame, node: ast.Call) -> Any:
        function = self._value(frame, node.func)
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise _Unclear
        arguments = [self._value(frame, argument) for argument in node.args]
        named = [self._value(frame, keyword.value) for keyword in node.keywords]
        if _holds_array(function):
            raise _Unclear
        gets_array = any(map(_holds_array, (*arguments, *named)))
        target = function.value if isinstance(function, _Object) else None
        if target is len and gets_array and isinstance(arguments[0], _Array) and len(arguments) == 1:
            return _Size(arguments[0].number, 0)
        if (touched := _TOUCHED.get(id(target))) is not None and not named:
            return self._touch(touched[1], arguments)
        if target is min and not gets_array:
            limits = [each for each in arguments if isinstance(each, Affine)]
            return _AtMost(limits[0]) if limits else _UNKNOWN
        is_followed = isinstance(target, self._threads.functions) and not named
        if gets_array and not is_followed:
            raise _Unclear
        known = self._threads.calls.get(key_of(target))
        if known is not None and not named:
            return known(*arguments) or _UNKNOWN
        if _is_cast(target) and len(arguments) == 1:
            return arguments[0] if isinstance(arguments[0], Affine | _Size) else _scalar(*arguments)
        return self._followed(target, arguments, gets_array) if is_followed else _UNKNOWN

    def _touch(self, touched: _Touched, arguments: Sequence[Any]) -> Any:
        array, *others = arguments
        if not isinstance(array, _Array) or any(map(_holds_array, others)):
            raise _Unclear
        for neighbour in range(touched.count):
            index = others[0] + Affine(neighbour) if isinstance(others[0], Affine) else _UNKNOWN
            if touched.writes:
                self._access(array, index)
            else:
                self._element(array, index)
        if touched.writes:
            self._written.add(array.number)
        return _UNKNOWN if touched.writes or not touched.count else (_UNKNOWN,) * touched.count

    def _followed(self, target: Any, arguments: Sequence[Any], gets_array: bool) -> Any:
        before = self._loops, self._limits, self._depth
        try:
            return self.call(target, arguments)
        except _Unclear:
            if gets_array:
                raise
            self._loops, self._limits, self._depth = before
            return _UNKNOWN

    @staticmethod
    def _is_range(function: Any) -> bool:
        value = function.value if isinstance(function, _Object) else None
        is_prange = getattr(value, "__name__", None) == "prange" and value.__module__.startswith("numba.")
        return value is range or is_prange


def _scalar(*values: Any) -> _Unknown:
    """An unknown value that is made of others; arithmetic with whole arrays is not understood."""
    if any(map(_holds_array, values)):
        raise _Unclear
    return _UNKNOWN


def _constant(value: Any) -> Any:
    """A value from outside the function, which the compiler takes for constant."""
    return Affine(value) if type(value) is int else _Object(value)


def key_of(value: Any) -> Any:
    """How the tables of :class:`ThreadIndices` name an object: by its id; a name with dots by itself."""
    return value if isinstance(value, str) else id(value)


def _has_element(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Subscript) for each in ast.walk(node))


def _is_cast(target: Any) -> bool:
    return target is int or (
        getattr(target, "__module__", None) == "numpy" and getattr(target, "__name__", None) in _CAST_NAMES
    )


def _counted(arguments: Sequence[Any]) -> tuple[Counter, Any]:
    """The counter of a loop over a range, and the variable of the loop."""
    if not 1 <= len(arguments) <= 3:
        return Counter(), _UNKNOWN
    first = arguments[0] if len(arguments) > 1 else Affine()
    last = arguments[min(1, len(arguments) - 1)]
    step = arguments[2].value if len(arguments) > 2 and isinstance(arguments[2], Affine) else 1
    if (len(arguments) > 2 and not isinstance(arguments[2], Affine)) or not isinstance(first, Affine):
        return Counter(), _UNKNOWN
    if step is None or step <= 0:
        return Counter(), _UNKNOWN
    extent = None
    if isinstance(last, Affine) and (distance := (last + first.times(-1)).value) is not None:
        extent = max(0, -(-distance // step))
    counter = Counter(extent)
    return counter, first + Affine.of(counter, step)


def _steps(node: ast.While) -> tuple[str, ast.expr] | None:
    """The variable that each turn of a loop moves on by the last statement of its body, and the distance."""
    match node.body[-1]:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=step):
            stores = [each for each in _stores(node) if each == name]
            skips = any(isinstance(each, ast.Continue) for each in ast.walk(node))
            is_fixed = _names(step).isdisjoint(_stores(node))
            return (name, step) if len(stores) == 1 and not skips and is_fixed else None
    return None


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _stores(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))


def _local_names(function: types.FunctionType) -> frozenset[str]:
    code = function.__code__
    return frozenset((*code.co_varnames, *code.co_cellvars))


def _resolved(function: types.FunctionType, name: str) -> Any:
    """The value of a name from outside a function."""
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:
            raise _Unclear from None
    if name in function.__globals__:
        return function.__globals__[name]
    if hasattr(builtins, name):
        return getattr(builtins, name)
    raise _Unclear


def _source(function: Any) -> ast.FunctionDef | None:
    """The syntax tree of a function, if it is what the function was made from."""
    if not isinstance(function, types.FunctionType):
        return None
    return compiled_from(function.__code__)
