"""Reads from the C++ that Warp generates what a kernel does with the memory of each of its arrays.

The memory of an array is reached through the array's variable, and through everything that is computed from it: views,
copies of the variable, addresses, and the parameters and results of functions. Each statement that mentions one of
these has to be in a known form. Whatever is in another form may do anything with the memory, see :data:`UNKNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

UNKNOWN = "?"
"""The use of an array by a statement of unknown form."""

READ = "load"
"""The use of an array by a function that only reads it."""

WRITE = "array_store"
"""The use of an array by a function that writes to it."""

EXTREMES = frozenset({"atomic_max", "atomic_min"})
"""Warp's functions that replace an element if another value is larger or smaller."""

_UNKNOWN = frozenset({UNKNOWN})

_READS = frozenset({
    READ, "len", "lower_bound", "tile_load", "tile_load_indexed", "volume_sample_index", "sample_cdf",
})  # fmt: skip
"""Warp's functions that read from an array, and whose result does not lead to its memory."""

_LEADS = frozenset({"address", "copy", "select", "view", "where"})
"""Warp's functions that neither read nor write, and whose result leads to the memory of their arguments."""

_WRITES = ("array_store", "store", "atomic_", "tile_store", "tile_atomic_")
"""How the names of Warp's functions start that write to their first argument."""

_ADJOINTS = frozenset({
    "adj_address", "adj_array_store", "adj_array_store_slot", "adj_copy", "adj_len", "adj_load", "adj_lower_bound",
    "adj_select", "adj_store", "adj_tile_atomic_add", "adj_tile_atomic_add_indexed", "adj_tile_load",
    "adj_tile_load_indexed", "adj_tile_store", "adj_tile_store_indexed", "adj_view", "adj_where",
    *(f"adj_atomic_{name}" for name in ("add", "sub", "min", "max", "cas", "exch", "and", "or", "xor")),
    *(f"adj_array_atomic_{name}_slot" for name in ("add", "sub", "and", "or", "xor")),
})  # fmt: skip
"""Warp's functions of adjoints that only read the arrays of the forward launch. They write to adjoint arrays."""


@dataclass(frozen=True)
class Uses:
    """What a launch does with the memory of its arrays.

    Attributes:
        of: Names of Warp's functions that read or write the memory of each array, by parameter.
    """

    of: Mapping[str, frozenset[str]]

    def unwritten(self, parameter: str) -> bool:
        """Whether it is certain that nothing is written to an array."""
        return self.of.get(parameter, _UNKNOWN) <= _READS

    def written(self, parameter: str) -> bool:
        """Whether it is certain that a statement writes to an array."""
        return any(name.startswith(_WRITES) for name in self.of.get(parameter, ()))

    def extreme(self, parameter: str) -> bool:
        """Whether an array is used, and only for maxima or minima."""
        used = self.of.get(parameter, frozenset())
        return bool(used) and used <= EXTREMES

    def __or__(self, other: Uses) -> Uses:
        """What one of two launches does."""
        names = {*self.of, *other.of}
        return Uses({name: self.of.get(name, _UNKNOWN) | other.of.get(name, _UNKNOWN) for name in names})


def uses_of(
    source: str, parameters: Collection[str], opaque: Collection[str], declared: Mapping[str, str], *, backward: bool
) -> Uses:
    """What the kernel in a source, or its adjoint, does with the memory of its parameters.

    Args:
        source: The C++ of a kernel and of the functions that it calls.
        parameters: Names of the parameters of the kernel.
        opaque: Names of functions in the source that their user wrote in C++.
        declared: How some of them use their first argument, by name: READ or WRITE. They read other arrays.
        backward: Look at the adjoint.
    """
    functions = _functions(source, opaque)
    end = "_kernel_backward" if backward else "_kernel_forward"
    kernels = [function for name, function in functions.items() if name.endswith(end)]
    if len(kernels) != 1 or kernels[0] is None:
        return Uses({})
    kernel = kernels[0]
    given = [match[1] for statement, _ in kernel.statements if (match := _ARGUMENT.fullmatch(statement))]
    known = {*(f"var_{name}" for name in given), *kernel.parameters}
    roots = {f"var_{name}": name for name in parameters}
    found = _Analysis(functions, declared).of(kernel, roots)
    return Uses({name: frozenset(found.uses.get(root, ())) for root, name in roots.items() if root in known})


def uses_tiles(source: str) -> bool:
    """Whether a kernel calls a tile function of Warp."""
    return re.search(r"\bwp::(tile|untile)\w*[(<]", _without_comments(source)) is not None


@dataclass(frozen=True)
class _Function:
    parameters: tuple[str, ...]
    statements: tuple[tuple[str, frozenset[str]], ...]  # with the names that each mentions


@dataclass
class _Found:
    """What a function does with the memory that its roots lead to.

    Attributes:
        uses: The uses of the memory of each root.
        reach: The roots whose memory each variable leads to; ``return`` stands for the result of the function.
    """

    uses: dict[str, set[str]] = field(default_factory=dict)
    reach: dict[str, set[str]] = field(default_factory=dict)


_DEFINITION = re.compile(
    r"^(?:[^\n(){};#/]|\w\([\d, ]*\) )*?\b(\w+)\(\s*([^(){};]*?)\)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL
)
_DECLARATION = re.compile(r"(?:const )?[\w:]+(?:<[^;=()]*>)?\*? \w+(?: = \{\})?;")
_ARGUMENT = re.compile(r"(?:const )?[\w:]+(?:<[^;=()]*>)?\*? var_(\w+) = _wp_args->\1;")
_ASSIGNMENT = re.compile(r"(\w+) = (\w+);")
_SHAPE = re.compile(r"\w+ = &\(\w+\.(?:shape|strides|ndim)\);")
_ELEMENT = re.compile(r"(\w+) = &\(wp::index\(([\w, ]*)\)\);")
_RETURN = re.compile(r"return (\w+);")
_CALL = re.compile(r"(?:(\w+) = )?(wp::)?(\w+)(?=[<(])")
_NAME = re.compile(r"[A-Za-z_]\w*")


def _without_comments(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith("//"))


def _functions(source: str, opaque: Collection[str]) -> dict[str, _Function | None]:
    """The functions that a source defines; None for one that is opaque, or defined more than once."""
    functions: dict[str, _Function | None] = {}
    for match in _DEFINITION.finditer(_without_comments(source)):
        name, parameters, body = match.groups()
        names = tuple(
            _NAME.findall(parameter)[-1] for parameter in re.split(r",\s*\n", parameters) if parameter.strip()
        )
        lines = (line.strip() for line in body.splitlines())
        statements = tuple((line, frozenset(_NAME.findall(line))) for line in lines if line)
        known = name in functions or name.removeprefix("adj_") in opaque
        functions[name] = None if known else _Function(names, statements)
    return functions


class _Analysis:
    """Follows the memory of arrays through the functions of a source."""

    def __init__(self, functions: Mapping[str, _Function | None], declared: Mapping[str, str]):
        self._functions = functions
        self._declared = declared
        self._summaries: dict[tuple[str, int], _Found | None] = {}

    def of(self, function: _Function, roots: Collection[str]) -> _Found:
        """What a function does with the memory that some of its variables lead to at the start."""
        found = _Found(reach={root: {root} for root in roots})
        before = -1
        while before != (before := _size(found)):
            for statement, names in function.statements:
                if mentioned := names & found.reach.keys():
                    self._follow(statement, mentioned, found)
        return found

    def _summary(self, name: str, index: int) -> _Found | None:
        """What a function does with one of its parameters; None if that is unknown, or if it calls itself."""
        function = self._functions.get(name)
        if function is None:
            return None
        if (name, index) not in self._summaries:
            self._summaries[name, index] = None
            self._summaries[name, index] = self.of(function, [function.parameters[index]])
        return self._summaries[name, index]

    def _follow(self, statement: str, mentioned: Collection[str], found: _Found) -> None:
        if match := _RETURN.fullmatch(statement):
            _lead(found, match[1], "return")
        elif any(form.fullmatch(statement) for form in (_DECLARATION, _ARGUMENT, _SHAPE)):
            pass
        elif match := _ASSIGNMENT.fullmatch(statement):
            _lead(found, match[2], match[1])
        elif match := _ELEMENT.fullmatch(statement):
            for name in match[2].split(", "):
                _lead(found, name, match[1])
        elif not self._follow_call(statement, found):
            _use(found, mentioned, UNKNOWN)

    def _follow_call(self, statement: str, found: _Found) -> bool:
        """Follows a statement that is a call; returns False if it is something else, or its effect is unknown."""
        match = _CALL.match(statement)
        arguments = None if match is None else _arguments(statement[match.end() :])
        if match is None or arguments is None:
            return False
        target, of_warp, name = match.groups()
        leading = [index for index, each in enumerate(arguments) if found.reach.keys() & set(_NAME.findall(each))]
        plain = all(_NAME.fullmatch(arguments[index]) for index in leading)
        if not of_warp:
            return plain and self._follow_function(name, target, arguments, found)
        if name.startswith(_WRITES) and leading == [0]:
            _use(found, set(_NAME.findall(arguments[0])) & found.reach.keys(), name)
            return True
        if not plain:
            return False
        passed = {arguments[index] for index in leading}
        if name in _READS and target is not None:
            _use(found, passed, name)
        elif name in _LEADS and target is not None:
            for argument in passed:
                _lead(found, argument, target)
        elif name == "assign" and target is None and len(arguments) == 2:
            _lead(found, arguments[1], arguments[0])
        else:
            # A target alone is mentioned where a variable gets another value.
            return (name in _ADJOINTS and target is None) or not leading
        return True

    def _follow_function(self, name: str, target: str | None, arguments: Sequence[str], found: _Found) -> bool:
        function = self._functions.get(name)
        leading = [index for index, argument in enumerate(arguments) if argument in found.reach]
        if name.removeprefix("adj_").removeprefix("replay_") in self._declared:
            for index in leading:
                _use(found, [arguments[index]], READ if index else self._declared.get(name, READ))
            return True
        if leading and (function is None or len(function.parameters) != len(arguments)):
            return False
        for index in leading:
            summary = self._summary(name, index)
            if function is None or summary is None:
                return False
            for used in summary.uses.get(function.parameters[index], ()):
                _use(found, [arguments[index]], used)
            results = {"return": target, **dict(zip(function.parameters, arguments, strict=True))}
            for variable in summary.reach:
                if (reached := results.get(variable)) is not None:
                    _lead(found, arguments[index], reached)
        return True


def _size(found: _Found) -> int:
    return sum(map(len, (*found.uses.values(), *found.reach.values())))


def _use(found: _Found, variables: Collection[str], name: str) -> None:
    for variable in variables:
        for root in found.reach[variable]:
            found.uses.setdefault(root, set()).add(name)


def _lead(found: _Found, source: str, target: str) -> None:
    if roots := found.reach.get(source):
        found.reach.setdefault(target, set()).update(roots)


def _arguments(text: str) -> list[str] | None:
    """The arguments of a call, after the name of its function; None if the text is no more than that."""
    if text.startswith("<"):
        text = text[_closing(text, "<", ">") :]
    if not text.startswith("("):
        return None
    end = _closing(text, "(", ")")
    if text[end:] != ";":
        return None
    return list(_split(text[1 : end - 1]))


def _closing(text: str, opened: str, closed: str) -> int:
    """Where the text goes on after the bracket that it starts with is closed."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == opened) - (character == closed)
        if depth == 0:
            return index + 1
    return len(text)


def _split(text: str) -> Iterator[str]:
    """The parts between the commas that are in no brackets."""
    depth = start = 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield text[start:index].strip()
            start = index + 1
    if text[start:].strip():
        yield text[start:].strip()
