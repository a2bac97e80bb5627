"""Finds the places for faults in kernels that are written in CUDA C++.

It reads tokens, not syntax: a fault that does not fit makes a source that does not compile, which does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from suites.mutation.fault import Fault

_TOKEN = re.compile(
    r"""
    (?P<skipped>//[^\n]*|/\*.*?\*/|^[ \t]*\#[^\n]*|"(?:[^"\\]|\\.)*"|template\s*<[^<>]*>|\w+_cast\s*<[^<>]*>)
  | (?P<number>\b(?:\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+|\d+(?:[eE][-+]?\d+)?)[fFuUlL]*\b|\b\d+\.(?!\w))
  | (?P<type>\blong\s+long\b|\bdouble\b)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<operator><<=|>>=|<=|>=|==|!=|&&|\|\||<<|>>|\+\+|--|[-+*/%&|^]=|->|[-+*/%<>=!?:;,.(){}\[\]&|^~])
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_COMPARED = {
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",),
}  # fmt: skip
_OTHER = {
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "+=", "/=": "*=", "<<": ">>",
    ">>": "<<", "&": "|", "|": "&",
}  # fmt: skip
_LOGIC = {"&&": "||", "||": "&&"}
_MINMAX = {"min": "max", "max": "min", "fmin": "fmax", "fmax": "fmin", "fminf": "fmaxf", "fmaxf": "fminf"}
_NARROWER = {"double": "float"}
_LEFT_OUT = ("abs", "fabs", "fabsf", "sqrt", "sqrtf", "exp", "expf", "tanh", "tanhf")
_WRITES = ("[", "(", "=", "+=", "-=", "*=", "/=")
_CONTROLS = ("if", "for", "while", "return")
_BARRIERS = ("__syncthreads", "__syncwarp")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def cpp_faults(source: str) -> list[Fault]:
    """Finds every fault that fits into the bodies of the functions of a source, in the order of the text."""
    tokens = [
        _Token(str(match.lastgroup), match[0], match.start(), match.end())
        for match in _TOKEN.finditer(source)
        if match.lastgroup != "skipped"
    ]
    found: dict[tuple[int, int, str], Fault] = {}
    finder = _Finder(source, tokens)
    for place in range(len(tokens)):
        if finder.depth[place] > 0:
            for fault in finder.faults(place):
                found.setdefault((fault.start, fault.end, fault.text), fault)
    return sorted(found.values(), key=lambda fault: (fault.start, fault.end, fault.text))


class _Finder:
    def __init__(self, source: str, tokens: list[_Token]):
        self._source, self._tokens = source, tokens
        self.depth: list[int] = []
        depth = 0
        for token in tokens:
            depth -= token.text == "}"
            self.depth.append(depth)
            depth += token.text == "{"

    def faults(self, place: int) -> Iterator[Fault]:
        token, before, after = self._at(place), self._at(place - 1), self._at(place + 1)
        is_binary = before.kind in ("word", "number") or before.text in (")", "]")
        if token.kind == "number":
            yield from self._number(token)
        elif token.kind == "type" and token.text in _NARROWER:
            yield self._fault("narrow", token.start, token.end, _NARROWER[token.text])
        elif token.kind == "type" and token.text not in _NARROWER:
            yield self._fault("narrow", token.start, token.end, "int")
        elif token.text in _COMPARED and is_binary:
            for other in _COMPARED[token.text]:
                yield self._fault("compare", token.start, token.end, other)
        elif token.text in _OTHER and is_binary and after.text not in (")", ",", ">"):
            yield self._fault("arithmetic", token.start, token.end, _OTHER[token.text])
        elif token.text in _LOGIC:
            yield self._fault("logic", token.start, token.end, _LOGIC[token.text])
        elif token.text in ("-", "!") and not is_binary:
            yield self._fault("logic", token.start, token.end, "")
        elif token.text == "?":
            yield from self._choice(place)
        elif token.text in _MINMAX and after.text == "(":
            yield self._fault("minmax", token.start, token.end, _MINMAX[token.text])
        elif token.text in _LEFT_OUT and after.text == "(":
            yield self._fault("call", token.start, token.end, "")
        elif token.text == "if" and after.text == "(":
            close = self._closing(place + 1)
            for other in ("(true)", "(false)"):
                yield self._fault("guard", after.start, self._at(close).end, other)
        elif token.text == "[":
            inside = self._source[token.end : self._at(self._closing(place)).start]
            for change in ("+ 1", "- 1"):
                yield self._fault("index", token.end, token.end + len(inside), f"({inside}) {change}")
        elif token.text in ("return", "break", "continue") and after.text == ";":
            yield self._fault("exit", token.start, token.end, "")
        elif before.text in (";", "{", "}") and token.kind == "word":
            yield from self._statement(place)

    def _number(self, token: _Token) -> Iterator[Fault]:
        digits = token.text.rstrip("fFuUlL")
        suffix = token.text[len(digits) :]
        if re.fullmatch(r"\d+", digits):
            value = int(digits)
            others = [str(value + 1)] if value < 2 else [str(value + 1), str(value - 1)]
        else:
            others = ["1.0"] if float(digits) == 0 else [repr(float(digits) * 1.01)]
        for other in others:
            kind = "initial" if float(digits) == 0 else "constant"
            yield self._fault(kind, token.start, token.end, other + suffix)

    def _choice(self, place: int) -> Iterator[Fault]:
        """``a ? b : c`` with the two values swapped; the statement ends with ``;``."""
        ends = range(place, len(self._tokens))
        colon = next((each for each in ends if self._at(each).text == ":"), None)
        end = next((each for each in ends if self._at(each).text == ";"), None)
        if colon is None or end is None or colon > end:
            return
        start = self._at(place).end
        first = self._source[start : self._at(colon).start].strip()
        second = self._source[self._at(colon).end : self._at(end).start].strip()
        yield self._fault("guard", start, self._at(end).start, f" {second} : {first}")

    def _statement(self, place: int) -> Iterator[Fault]:
        """A statement that writes an element, changes a variable or calls a function: not a declaration."""
        end = next((each for each in range(place, len(self._tokens)) if self._at(each).text in (";", "{")), None)
        if end is None or self._at(end).text == "{":
            return
        token, after = self._at(place), self._at(place + 1)
        start, stop = token.start, self._at(end).end
        if token.text in _BARRIERS:
            yield self._fault("sync", start, stop, ";")
        elif token.text == "atomicAdd" and self._at(place + 2).text == "&":
            comma = self._at(self._comma(place + 3, end))
            close = self._at(self._closing(place + 1))
            to = self._source[self._at(place + 3).start : comma.start]
            yield self._fault("atomic", start, stop, f"{to} += {self._source[comma.end : close.start].strip()};")
            yield self._fault("statement", start, stop, ";")
        elif after.text in _WRITES and token.text not in _CONTROLS:
            yield self._fault("statement", start, stop, ";")

    def _comma(self, place: int, end: int) -> int:
        depth = 0
        for each in range(place, end):
            text = self._at(each).text
            depth += (text in "([") - (text in ")]")
            if text == "," and depth == 0:
                return each
        return end

    def _closing(self, place: int) -> int:
        """Returns the place of the bracket that closes the one at ``place``."""
        depth = 0
        for each in range(place, len(self._tokens)):
            depth += (self._at(each).text in ("(", "[", "{")) - (self._at(each).text in (")", "]", "}"))
            if depth == 0:
                return each
        return len(self._tokens) - 1

    def _at(self, place: int) -> _Token:
        outside = _Token("", "", 0, 0)
        return self._tokens[place] if 0 <= place < len(self._tokens) else outside

    def _fault(self, kind: str, start: int, end: int, text: str) -> Fault:
        source = self._source
        shown_end = max(end, start + 1)
        return Fault(
            kind=kind,
            line=source.count("\n", 0, start) + 1,
            start=len(source[:start].encode()),
            end=len(source[:end].encode()),
            text=text,
            before=" ".join(source[start:shown_end].split()),
            after=" ".join(text.split()),
        )
