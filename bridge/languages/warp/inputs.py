"""Keeps kernels from changing their inputs: decides, from the C++ that Warp generates, which inputs are copied.

A kernel gets the memory of an input itself if each statement that names the array only reads, and each statement that
names what such a statement makes of it: a view, another name, the address of an element, a parameter of a function.
Any other input shares its buffer with an extra result of the call, which is dropped. XLA then copies the input, unless
nothing else uses it.

Warp's own record of the arrays that a kernel writes to does not serve, in 1.13 to 1.19: it misses what is written
through another name, ``wp.where``, a tile, a function in C++, or an array that a function returns.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.kernel.generated_text import split_arguments

Uses = frozenset[str]
"""Names of Warp's functions that read or write the memory of an array."""

UNKNOWN: Uses = frozenset({"?"})
"""The use of an array by a statement that is not understood: it may do anything."""

EXTREMES: Uses = frozenset({"atomic_max", "atomic_min"})
"""Warp's functions that replace an element if another value is larger or smaller."""

_LOADS: Uses = frozenset({"load", "tile_load", "tile_load_indexed"})
_READS: Uses = _LOADS | {"len", "lower_bound", "volume_sample_index", "sample_cdf", "function in C++"}
_WRITES = ("array_store", "store", "atomic_", "tile_store", "tile_atomic_")  # beginnings; to the first argument
_LEADS = frozenset(
    {"address", "copy", "indexref", "select", "view", "where"}
)  # the result leads to the memory of the arguments

_writes_of: weakref.WeakKeyDictionary[Any, frozenset[int]] = weakref.WeakKeyDictionary()


def declare_writes(function: Any, *names: str) -> Any:
    """Says which of its arrays a ``warp.func_native`` writes to; without names it only reads.

    What a function in C++ does with an array does not show. So an input that it gets is copied, unless its author says
    here that the function does not write to it.

    Args:
        function: The function. Its result does not lead to the memory of an array. Its adjoint and its replay snippet
            write to adjoint arrays only.
        names: Its parameters that it writes to.

    Returns:
        The function.
    """
    parameters = list(getattr(function, "input_types", ()))
    if getattr(function, "native_snippet", None) is None or not set(names) <= set(parameters):
        raise TypeError(
            f"declare_writes: got {function!r} and {names}, expected what warp.func_native returns and names among "
            f"{parameters}."
        )
    _writes_of[function] = frozenset(map(parameters.index, names))
    return function


def declared_writes(function: Any) -> frozenset[int] | None:
    """Positions of the arguments that a function in C++ writes to; None if that was not declared."""
    return _writes_of.get(function)


def only_read(uses: Uses) -> bool:
    """Whether it is certain that nothing is written to an array."""
    return uses <= _READS


def written(uses: Uses) -> bool:
    """Whether it is certain that something is written to an array."""
    return any(use.startswith(_WRITES) for use in uses)


def uses_of(
    code: str, arrays: Sequence[str], native: Mapping[str, frozenset[int] | None], *, backward: bool
) -> dict[str, Uses]:
    """What a kernel, or its adjoint, does with the memory of each array.

    Args:
        code: The C++ of the kernel and of the functions that it calls, without comments.
        arrays: Names of the kernel's parameters that are arrays.
        native: The functions that their user wrote in C++, with what :func:`declared_writes` gives for each.
        backward: Look at the adjoint.
    """
    walk, kernel = _read(code, native, "_kernel_backward" if backward else "_kernel_forward")
    return {
        array: walk.follow(kernel, f"var_{array}")[0] if kernel and f"var_{array}" in kernel.parameters else UNKNOWN
        for array in arrays
    }


def loses_a_value(code: str, array: str, native: Mapping[str, frozenset[int] | None], *, has_results: bool) -> bool:
    """Whether the adjoint of a kernel without loops reads an element where the kernel read another value of it.

    The adjoint repeats what the kernel computes, but not what it stores. So each read gives the value that the element
    has at the end, for an output, or at the start, for an array that is input and output.

    Args:
        code: As for :func:`uses_of`.
        array: The name of the array.
        native: As for :func:`uses_of`.
        has_results: Whether the adjoint gets what the kernel has made of the array.
    """
    walk, kernel = _read(code, native, "_kernel_forward")
    if kernel is None:
        return False
    uses = walk.in_order(kernel, f"var_{array}")
    reads = [place for place, use in enumerate(uses) if use & _LOADS]
    writes = [place for place, use in enumerate(uses) if written(use)]
    if not reads or not writes:
        return False
    return min(reads) < max(writes) if has_results else max(reads) > min(writes)


def _read(
    code: str, native: Mapping[str, frozenset[int] | None], end: str
) -> tuple[_MemoryWalk, _SourceFunction | None]:
    """The functions of a source, and the only one whose name ends so; None if there is no such one."""
    functions: dict[str, _SourceFunction | None] = {}
    _, *definitions = _DEFINITION.split(code)
    for name, parameters, body in zip(*(definitions[start::3] for start in range(3)), strict=True):
        opaque = name in functions or _forward_of(name) in native
        functions[name] = None if opaque else _SourceFunction(parameters, body)
    kernels = [function for name, function in functions.items() if name.endswith(end)]
    return _MemoryWalk(functions, native), kernels[0] if len(kernels) == 1 else None


# The forms of the definitions and statements that Warp generates.
_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFINITION = re.compile(  # up to the body; what follows the body mentions no variables
    r"^(?:[^\n(){};#/]|\w\([\d, ]*\) )*?\b(\w+)\(\s*([^(){};]*?)\)\n\{\n", re.MULTILINE
)
_KERNEL_ARGUMENT = r"(?:const )?[\w:]+(?:<[^;=()]*>)?\*? (var_\w+) = _wp_args->\w+;"  # on the CPU
_DECLARATION = r"(?:const )?[\w:]+(?:<[^;=()]*>)?\*? \w+(?: = \{\})?;"
_NEUTRAL = re.compile(rf"{_KERNEL_ARGUMENT}|{_DECLARATION}|\w+ = &\(\w+\.(?:shape|strides|ndim)\);")
_COPY = re.compile(r"(?:(return)|(\w+) =) (\w+);")
_ELEMENT = re.compile(r"(\w+) = &\(wp::index\([\w, ]*\)\);")
_CALL = re.compile(r"(?:(\w+) = )?(wp::)?(\w+)(?:<[^()]*>)?\((.*)\);")

_FoundUses = tuple[Uses, set[str]]
"""The uses of some memory, and the variables that lead to it, ``return`` for the result of a function."""


class _SourceFunction:
    """A function of the source: its parameters, and its statements with the names in each."""

    def __init__(self, parameters: str, body: str):
        given = (part for part in re.split(r",\s*\n", parameters) if part.strip())
        self.parameters = [_NAME.findall(part)[-1] for part in given] + re.findall(_KERNEL_ARGUMENT, body)
        self.statements = [(text.strip(), set(_NAME.findall(text))) for text in body.splitlines()]


class _MemoryWalk:
    """Follows the memory of an array through the functions of a source."""

    def __init__(self, functions: Mapping[str, _SourceFunction | None], native: Mapping[str, frozenset[int] | None]):
        self._functions, self._native = functions, native
        self._known: dict[tuple[str, int], _FoundUses] = {}

    def follow(self, function: _SourceFunction, variable: str) -> _FoundUses:
        """What a function does with the memory that one of its variables leads to at the start."""
        uses, reached, before = frozenset[str](), {variable}, 0
        while len(reached) > before:
            before = len(reached)
            for text, names in function.statements:
                if names & reached:
                    more, leads = self._statement(text, reached)
                    uses, reached = uses | more, reached | leads
        return uses, reached

    def in_order(self, function: _SourceFunction, variable: str) -> list[Uses]:
        """The same, for each statement in the order of the text, also of the functions that are called."""
        uses, (_, reached) = list[Uses](), self.follow(function, variable)
        for text, names in function.statements:
            call = _CALL.fullmatch(text)
            called = self._functions.get(call[3]) if call and not call[2] else None
            if called is None or called is function:
                uses += [self._statement(text, reached)[0]] if names & reached else []
            elif call is not None:
                given = zip(called.parameters, split_arguments(call[4]), strict=False)
                for parameter in [own for own, argument in given if argument in reached]:
                    uses += self.in_order(called, parameter)
        return uses

    def _statement(self, text: str, reached: set[str]) -> _FoundUses:
        if match := _COPY.fullmatch(text):
            return frozenset(), {match[1] or match[2]} if match[3] in reached else set()
        if _NEUTRAL.fullmatch(text):
            return frozenset(), set()
        if match := _ELEMENT.fullmatch(text):
            return frozenset(), {match[1]}
        match = _CALL.fullmatch(text)
        if match is None:
            return UNKNOWN, set()
        target, of_warp, name, arguments = match[1], match[2], match[3], split_arguments(match[4])
        leading = [index for index, each in enumerate(arguments) if reached & set(_NAME.findall(each))]
        if not leading:  # the target gets another value
            return frozenset(), set()
        if of_warp and name.startswith(_WRITES) and leading == [0]:
            return frozenset({name}), set()
        if any(arguments[index] not in reached for index in leading):  # an expression
            return UNKNOWN, set()
        if not of_warp:
            return self._call(name, target, arguments, leading)
        if target and name in _READS:
            return frozenset({name}), set()
        if target and name in _LEADS:
            return frozenset(), {target}
        if name == "assign" and len(arguments) == 2 and _NAME.fullmatch(arguments[0]):
            return frozenset(), {arguments[0]}
        # Warp's adjoints read the arrays of the forward launch, and write to adjoints.
        return (frozenset() if name.startswith("adj_") and not target else UNKNOWN), set()

    def _call(self, name: str, target: str | None, arguments: Sequence[str], leading: Sequence[int]) -> _FoundUses:
        """The call of a function of the source, some of whose arguments lead to the memory."""
        forward = _forward_of(name)
        if (written := self._native.get(forward)) is not None:
            return frozenset("store" if i in written and name == forward else "function in C++" for i in leading), set()
        function = self._functions.get(name)
        if function is None or len(function.parameters) != len(arguments):
            return UNKNOWN, set()
        outside = {"return": target, **dict(zip(function.parameters, arguments, strict=True))}
        uses, reached = frozenset[str](), set[str | None]()
        for index in leading:
            if (name, index) not in self._known:
                self._known[name, index] = UNKNOWN, set()  # a function that calls itself
                self._known[name, index] = self.follow(function, function.parameters[index])
            more, inside = self._known[name, index]
            uses |= more
            reached |= {outside[variable] for variable in inside & outside.keys()}
        leads = {each for each in reached if each is not None}
        return (uses if all(map(_NAME.fullmatch, leads)) else UNKNOWN), leads


def _forward_of(name: str) -> str:
    """The function that a function of this name differentiates or repeats, or is."""
    return name.removeprefix("adj_").removeprefix("replay_")
