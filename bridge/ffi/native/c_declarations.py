"""Reads the declarations of a C header: structs as ctypes structures, and the values of enumerators.

It knows what XLA's header consists of, and refuses what it does not know where that is needed: unions, arrays and bit
fields, for example. A general parser of C takes longer to import and to run than all else of ``import bridge``.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator
from typing import Any

_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool, "char": ctypes.c_char, "double": ctypes.c_double, "float": ctypes.c_float,
    "int": ctypes.c_int, "int8_t": ctypes.c_int8, "int16_t": ctypes.c_int16, "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64, "intptr_t": ctypes.c_ssize_t, "size_t": ctypes.c_size_t, "uint8_t": ctypes.c_uint8,
    "uint16_t": ctypes.c_uint16, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "uintptr_t": ctypes.c_size_t, "unsigned int": ctypes.c_uint,
}  # fmt: skip
"""The types that a C compiler knows, as far as headers of a binary interface use them."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|\d+)[uUlL]*(?:<<(\d+))?")
_QUALIFIERS = {"const", "volatile", "struct", "enum"}

_Tokens = list[str]


class UnreadableDeclarationError(Exception):
    """A declaration is missing, or is none that this module knows. The message says which one."""


class CDeclarations:
    """The declarations of a header. It lays out a type when it is first asked for it.

    Args:
        text: C without directives of the preprocessor and without macro calls; comments may be in it.

    Raises:
        UnreadableDeclarationError: The braces do not match.
    """

    def __init__(self, text: str):
        self._aliases: dict[str, _Tokens] = {}
        self._structs: dict[str, _Tokens] = {}
        self._enumerations: dict[str, _Tokens] = {}
        self._laid_out: dict[str, type[ctypes.Structure]] = {}
        plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
        for index, declaration in enumerate(_statements(_TOKEN.findall(plain))):
            self._add(declaration, f"unnamed_{index}")

    def _add(self, declaration: _Tokens, otherwise: str) -> None:
        """Notes a declaration of a type; others are of no use here."""
        is_alias = declaration[:1] == ["typedef"]
        words = declaration[is_alias:]
        if "{" in words and words[0] in ("struct", "enum"):
            start, end = words.index("{"), len(words) - words[::-1].index("}")
            body, after = words[start + 1 : end - 1], words[end:]
            names = [*words[1:start], *after] or [otherwise]
            if all(_NAME.fullmatch(each) for each in names) and start <= 2 and len(after) <= is_alias:
                homes = self._structs if words[0] == "struct" else self._enumerations
                homes.update(dict.fromkeys(names, body))
        elif is_alias and len(words) > 1 and "(" not in words and words[-2:] != [words[-1]] * 2:
            self._aliases.setdefault(words[-1], words[:-1])

    def struct(self, name: str) -> type[ctypes.Structure]:
        """The layout of a struct. Every pointer in it has the type ``c_void_p``.

        Raises:
            UnreadableDeclarationError: There is no such struct, or it has a field of a kind that is not known here.
        """
        if name not in self._laid_out:
            if name not in self._structs:
                raise UnreadableDeclarationError(f"no struct {name}")
            body = self._structs.pop(name)  # a struct that holds itself is not found then
            fields = [self._field(name, field) for field in _statements(body)]
            self._laid_out[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        return self._laid_out[name]

    def _field(self, struct: str, tokens: _Tokens) -> tuple[str, Any]:
        words = [token for token in tokens if token not in _QUALIFIERS]
        if "(" in words:
            start = words.index("(")
            if words[start + 1 : start + 2] == ["*"] and words[start + 3 : start + 5] == [")", "("]:
                return words[start + 2], ctypes.c_void_p
        elif words and all(word == "*" or _NAME.fullmatch(word) for word in words) and words[-1] != "*":
            return words[-1], self._type(words[:-1])
        raise UnreadableDeclarationError(f"the field {' '.join(tokens)!r} of {struct}")

    def _type(self, tokens: _Tokens) -> Any:
        words = [token for token in tokens if token not in _QUALIFIERS]
        name = " ".join(words)
        if "*" in words:
            return ctypes.c_void_p
        if name in _SCALARS:
            return _SCALARS[name]
        if name in self._enumerations:
            self.enumerators(name)  # so that they are known to fit
            return ctypes.c_int
        if name in self._structs or name in self._laid_out:
            return self.struct(name)
        if name in self._aliases:
            return self._type(self._aliases[name])
        raise UnreadableDeclarationError(f"the type {name!r}")

    def enumerators(self, enumeration: str) -> dict[str, int]:
        """The values of an enumeration by their names.

        Raises:
            UnreadableDeclarationError: There is no such enumeration, or a value is no number.
        """
        if enumeration not in self._enumerations:
            raise UnreadableDeclarationError(f"no enumeration {enumeration}")
        values: dict[str, int] = {}
        value = -1
        for name, *given in _divided(self._enumerations[enumeration], ","):
            value = _number("".join(given[1:]), name) if given else value + 1
            if not -(1 << 31) <= value < 1 << 31:
                raise UnreadableDeclarationError(f"the value {value} of {name}, which does not fit into an int")
            values[name] = value
        return values

    def constant(self, name: str) -> int:
        """The value of an enumerator.

        Raises:
            UnreadableDeclarationError: There is no such enumerator, or it is no number.
        """
        for enumeration, body in self._enumerations.items():
            if name in body:
                return self.enumerators(enumeration)[name]
        raise UnreadableDeclarationError(f"no constant {name}")


def _statements(tokens: _Tokens) -> Iterator[_Tokens]:
    """The parts that end with a semicolon outside of braces."""
    found: _Tokens = []
    depth = 0
    for token in tokens:
        depth += (token == "{") - (token == "}")
        if depth < 0:
            break
        if token == ";" and depth == 0:
            yield found
            found = []
        else:
            found.append(token)
    if depth or found:
        raise UnreadableDeclarationError(f"a declaration without an end: {' '.join(found[:10])} ...")


def _divided(tokens: Iterable[str], at: str) -> Iterator[_Tokens]:
    """The parts between separators; an empty last part is none."""
    found: _Tokens = []
    for token in tokens:
        if token == at:
            yield found
            found = []
        else:
            found.append(token)
    if found:
        yield found


def _number(text: str, name: str) -> int:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise UnreadableDeclarationError(f"the value {text!r} of {name}")
    sign, digits, shift = found.groups()
    return int(f"{sign}{digits}", 0) << int(shift or 0)
