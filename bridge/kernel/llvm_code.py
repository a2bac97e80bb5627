"""Writes LLVM code in a form that is the same in every process, without the names that a compiler generates.

Numba's names of functions and constants hold counters and addresses, and the order of its modules depends on what was
compiled before. Here the code of one function and of everything that it refers to is written in the order of the
references. Names of what is defined here become numbers. Names of what is defined elsewhere (functions of the
C library and of Numba's runtime) stay.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bridge.errors import AbiError

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_NAME = rf"(?:{_QUOTED}|[-$.\w]+)"
_TOKEN = re.compile(
    rf"""
    (?P<string>c{_QUOTED})
  | (?P<symbol>@{_NAME})
  | (?P<local>%{_NAME})
  | (?P<label>^{_NAME}(?=:))
  | (?P<attributes>\#\d+)
  | (?P<metadata>,?\s*!(?:[-$.\w]+\s+)?!\d+|\#dbg_\w+\([^\n]*)
  | (?P<quoted>{_QUOTED})
  | (?P<comment>;[^\n]*)
    """,
    re.VERBOSE | re.MULTILINE,
)
_DEFINITION = re.compile(
    rf"""
    ^(?:define\b[^\n@]*(?P<function>@{_NAME})
      | (?P<variable>@{_NAME})\s*=(?!\s*external\b)
      | (?P<type>%{_NAME})\s*=\s*type\b
      | attributes\s+(?P<attributes>\#\d+)\s*=)
    """,
    re.VERBOSE | re.MULTILINE,
)


@dataclass(frozen=True)
class LlvmDefinition:
    """One function, constant, variable, type or group of attributes of a module.

    Attributes:
        name: Its name in the module.
        text: Its LLVM code.
    """

    name: str
    text: str


Find = Callable[[str], LlvmDefinition]
"""Returns what a name stands for in one module. Compilers reuse names, so another module may define it otherwise."""

Replace = Callable[[LlvmDefinition, Find], str | None]
"""Returns other text for a definition, which then refers to nothing; None to keep its code."""


def portable_code(
    modules: Sequence[str], root: str, replace: Replace, outside: Callable[[str], None] = lambda name: None
) -> str:
    """The code of a function and of everything that it refers to, the same in every process.

    Args:
        modules: LLVM modules as text. A name that several modules define belongs to the module that refers to it, or to
            the first one.
        root: Name of the function.
        replace: Returns other text for some definitions. It finds other definitions in the definition's own module.
        outside: Gets the name of each function and variable that no module defines.

    Raises:
        AbiError: No module defines the function.
    """
    tables = [{each.name: each for each in _definitions(module)} for module in modules]
    first: dict[str, tuple[int, str]] = {}
    for index, table in enumerate(tables):
        for name in table:
            first.setdefault(name, (index, name))
    start = next((key for spelled in (f"@{root}", f'@"{root}"') if (key := first.get(spelled)) is not None), None)
    if start is None:
        raise AbiError(f"the compiled code has no function {root!r}. This version of the compiler is not supported.")

    numbers = {start: 0}
    pending = [start]
    written: list[str] = []

    def found(module: int, name: str) -> tuple[int, str] | None:
        return (module, name) if name in tables[module] else first.get(name)

    def find(module: int, name: str) -> LlvmDefinition:
        key = found(module, name)
        if key is None:
            raise AbiError(f"the compiled code has no {name!r}. This version of the compiler is not supported.")
        return tables[key[0]][key[1]]

    def number(module: int, name: str) -> str:
        """How the text refers to a name at the level of the module."""
        key = found(module, name)
        if key is None:
            if name[0] == "@":
                outside(name.strip('@"'))
            return name
        if key not in numbers:
            numbers[key] = len(numbers)
            pending.append(key)
        return f"{name[0]}{numbers[key]}"

    for key in pending:
        module, name = key
        definition = tables[module][name]
        other = replace(definition, functools.partial(find, module))
        written.append(_rewritten(definition.text, module, number) if other is None else other)
    return "\n".join(written)


def _rewritten(text: str, module: int, number: Callable[[int, str], str]) -> str:
    locals_: dict[str, str] = {}

    def token(match: re.Match[str]) -> str:
        kind, found = match.lastgroup, match[0]
        if kind in ("string", "quoted"):
            return found
        if kind in ("metadata", "comment"):
            return ""
        if kind in ("symbol", "attributes"):
            return number(module, found)
        if kind == "label":
            found = f"%{found}"
        elif (shared := number(module, found)) != found:  # the name of a type
            return shared
        return locals_.setdefault(found, f"%{len(locals_)}")

    return re.sub(r"\s+", " ", _TOKEN.sub(token, text))


def _definitions(module: str) -> Iterator[LlvmDefinition]:
    for match in _DEFINITION.finditer(module):
        assert match.lastgroup is not None
        last = "\n}" if match.lastgroup == "function" else "\n"
        end = module.find(last, match.start())
        yield LlvmDefinition(match[match.lastgroup], module[match.start() : len(module) if end < 0 else end])
