"""Finds loops whose adjoint, as Warp generates it, reads values that are gone.

The adjoint goes backwards through a loop that Warp does not unroll, and does not run it forwards before (1.13 to 1.19).
So in the adjoint a variable, or array, that a loop changes is *stale*: it has another value than it had, in the loop,
after the loop, and where a loop is in another one. The adjoint of a sum reads no stale variable. The adjoints of a
product, a maximum, a condition and an index do. The adjoint of a call runs the function first, so its result is right.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bridge.languages.warp.inputs import DEFINITION, split_arguments

_VARIABLE = re.compile(r"\bvar_\w+")
_LABEL = re.compile(r"(start|end)_((?:for|while)_\w+):;")
_DECLARATION = re.compile(r"^\s*((?:const )?[\w:]+(?:<[^;=\n]*>)?[*& ]+)(var_\w+)( = .*|\{\})?[;,]?$", re.MULTILINE)
_WHOLE = re.compile(r"(?:const )?(?:wp::)?(?:array_t<(?:wp::)?)?(?:u?int\d*|bool)\b[>*& ]*")
_CHANGE = re.compile(  # of the first argument; the adjoint does not repeat the stores
    r"\bwp::(?:assign|\w+_inplace|assign_copy|rand(?!_init)\w*|sample_\w+|poisson|adj_(?:array_store|store|atomic_\w+))\("
)
_CHANGE_OF_TILES = re.compile(r"wp::tile_(?!store|atomic)\w+\(")
_SHAPE = re.compile(r"&\(\w+\.(?:shape|strides|ndim)\);|wp::len\(")  # which no loop changes
_ADJOINT = re.compile(r"(?:wp::)?adj_([A-Za-z_]\w*)(?:<.*>)?\((.*)\);")

_SUMS = ("add", "sub", "neg", "pos", "assign", "copy", "float", "float16", "float32", "float64", "vec_t", "mat_t")
_UNREAD: dict[str, Sequence[int]] = {
    **dict.fromkeys((*_SUMS, "tile_add", "tile_sub"), range(16)),
    **dict.fromkeys(
        ("extract", "transpose", "tile", "untile", "tile_extract", "tile_reshape", "tile_sum", "tile_sum_axis"), (0,)
    ),
    **dict.fromkeys(("array_store", "store", "atomic_add", "atomic_sub", "tile_store", "tile_atomic_add"), (0, -1)),
    **dict.fromkeys(("add_inplace", "sub_inplace", "assign_inplace", "assign_copy", "tile_add_inplace"), (0, -1)),
    **{"address": (0,), "view": (0,), "tile_matmul": (-1,), "tile_matmul_acc": (-3,), "where": (1, 2)},
}
"""The arguments of a function that its adjoint does not read; negative numbers count from the last one."""

_PRODUCTS = {"mul": (0, 1), "tile_mul": (0, 1), "dot": (0, 1), "div": (0,), "tile_div": (0,)}
"""The arguments of a function that its adjoint reads only for the derivative in the other one."""


class _Statement(NamedTuple):
    loops: tuple[str, ...]
    text: str
    target: str | None
    read: tuple[str, ...]

    @property
    def changed(self) -> set[str]:
        """The variables that it assigns to, or changes."""
        changed = {self.target} if self.target else set()
        return changed.union(self.read[:1]) if _CHANGE.search(self.text) else changed


def reads_stale(source: str) -> bool:
    """Whether the adjoint of a kernel, or of a function that it calls, may read a variable that a loop has changed.

    Args:
        source: The C++ that Warp generates for the kernel.
    """
    _, *definitions = DEFINITION.split(source)
    return any(map(_reads_stale, definitions[::3], definitions[1::3], definitions[2::3]))


def _reads_stale(name: str, parameters: str, body: str) -> bool:
    statements = list(_statements(body))
    loops = {each.loops for each in statements if each.loops}
    returned = re.findall(r"(\S+) & adj_ret", parameters)
    stores = re.search(r"\badj_(array_store|store|atomic|tile)", body)
    if "// reverse" not in body or not loops or (returned and not stores and all(map(_WHOLE.fullmatch, returned))):
        return False
    if sum(bool(each.loops) and each.text.startswith("goto ") for each in statements) > len(loops):
        return True  # it leaves a turn of a loop early
    declared = _DECLARATION.findall(f"{parameters}\n{body}")
    whole = {name for kind, name, _ in declared if _WHOLE.fullmatch(kind)}
    given = {each for kind, each, value in declared if value} | set(_VARIABLE.findall(parameters))
    stale = _stale(statements, given, {name for kind, name, _ in declared if "tile_" in kind})
    arrays = {each for kind, each, _ in declared if "array" in kind or not name.endswith("_kernel_backward")}
    varying = _reached(statements, (given & arrays) - whole) - whole
    return any(_is_read(each, stale, varying, whole) for each in statements)


def _statements(body: str) -> Iterator[_Statement]:
    loops: tuple[str, ...] = ()
    for line in body.splitlines():
        text = line.strip()
        if match := _LABEL.fullmatch(text):
            loops = (*loops, match[2]) if match[1] == "start" else loops[:-1]
        elif not text.startswith("//") and not _DECLARATION.match(text):
            target, _, value = text.partition(" = ") if re.match(r"var_\w+ = ", text) else (None, "", text)
            yield _Statement(loops, text, target, () if _SHAPE.match(value) else tuple(_VARIABLE.findall(value)))


def _stale(statements: Sequence[_Statement], given: set[str], tiles: set[str]) -> set[str]:
    """The variables that a loop changes and that outlive its turn, and those that are computed from them."""
    made = defaultdict(set)
    for each in statements:
        made[each.target].add(each.loops)
    for each in statements:  # a function with several results
        for name in each.read:
            if not each.target and not made[name] and name not in given:
                made[name].add(each.loops)
    stale = {
        name for each in statements for name in each.read for loops in made[name] if each.loops[: len(loops)] != loops
    }
    for each in statements:
        changed = tiles.intersection(each.read) if _CHANGE_OF_TILES.match(each.text) else each.changed
        stale |= {name for name in changed if each.loops and each.loops not in made[name]}
    return _reached(statements, stale)


def _reached(statements: Sequence[_Statement], names: set[str]) -> set[str]:
    """The variables whose values depend on these."""
    found, before = set(names), -1
    while len(found) > before:
        before = len(found)
        for each in statements:
            if not found.isdisjoint(each.read):
                found |= each.changed
    return found


def _is_read(statement: _Statement, stale: set[str], varying: set[str], whole: set[str]) -> bool:
    """Whether it is a statement of the adjoint that reads a stale variable."""
    if statement.text.startswith("if ("):
        return not stale.isdisjoint(statement.read)
    match = _ADJOINT.match(statement.text)
    if match is None:
        return False
    arguments = split_arguments(match[2])
    if arguments[-1].replace("adj_", "var_", 1) in whole:  # nothing arrives to be passed on
        return False
    names = [each for each in arguments if _VARIABLE.fullmatch(each)]
    unread = {at % len(names) for at in _UNREAD.get(match[1], ()) if -len(names) <= at < len(names)}
    for at in _PRODUCTS.get(match[1], ()) if len(set(names[:2])) == 2 else ():
        if names[1 - at] not in varying | stale:
            unread |= {at, 2}  # 2: the result, which a quotient reads for its divisor
    return any(name in stale for at, name in enumerate(names) if at not in unread)
