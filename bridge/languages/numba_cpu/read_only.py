"""Shows which inputs of a compiled Numba kernel its machine code cannot change.

Numba's read-only arrays stop ``x[i] = v``, but not ``x.flat[i] = v``. So this module follows the address of each input
through the LLVM code of the kernel and of all functions that it calls. An input counts as unchanged only if no store can
have an address that was computed from the input's. What the module cannot follow counts as changed: an address that is
kept in the heap, or goes to a function without code.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import binding

from bridge.languages.numba_cpu.calling_convention import PARALLEL_FOR, data_arguments

Object = Any
"""What an address may point into: the index of an input, or the ``alloca`` instruction of a local variable."""

Place = tuple[Object, int | None]
"""An object, and the byte offset into it if that is known."""

_ANYWHERE = None
_WORD = 8
_MOST_OFFSETS = 16
_SIZES = {"ptr": 8, "i64": 8, "double": 8, "i32": 4, "float": 4, "i16": 2, "half": 2, "i8": 1, "i1": 1}

_SAME_ADDRESS = frozenset(
    ("phi", "select", "bitcast", "freeze", "addrspacecast", "inttoptr", "ptrtoint", "insertvalue", "extractvalue",
     "insertelement", "extractelement", "shufflevector")
)  # fmt: skip
_NO_ADDRESS = frozenset(("icmp", "fcmp"))
_NO_EFFECT = ("llvm.lifetime.", "llvm.assume", "llvm.prefetch", "llvm.dbg.", "llvm.invariant.")
_LOADS = ("llvm.masked.load.", "llvm.masked.gather.", "llvm.masked.expandload.")
_FILLS = ("llvm.memset.", "llvm.experimental.memset.")
_CONSTANT_OFFSET = re.compile(r"getelementptr (?:inbounds |nuw |nusw )*i8, ptr [^,]+, i64 (-?\d+)\b")


def changed_inputs(module: binding.ModuleRef, kernel: str, ranks: Sequence[int], inputs: Iterable[int]) -> set[int]:
    """Indices of the inputs that the kernel is not shown to leave unchanged.

    Args:
        module: The kernel with all functions that are linked to it.
        kernel: Name of its function, which has Numba's calling convention.
        ranks: Rank of each array of the kernel.
        inputs: Indices of the arrays to look at.
    """
    function = module.get_function(kernel)
    pointers = data_arguments(list(function.arguments), ranks)
    # LLVM itself has often shown it.
    open_ = {index for index in inputs if not _only_read(pointers[index].attributes)}
    if not open_:
        return set()
    walk = _Walk(module)
    for index in open_:
        walk.places[pointers[index]] = {(index, _ANYWHERE)}
    walk.run()
    return {obj for obj in walk.changed if isinstance(obj, int)}


def _only_read(attributes: Iterable[bytes]) -> bool:
    return not {b"readonly", b"readnone"}.isdisjoint(attributes)


@dataclass(frozen=True)
class _Instruction:
    value: binding.ValueRef
    opcode: str
    operands: tuple[binding.ValueRef, ...]
    function: binding.ValueRef


class _Walk:
    """Finds the places that each value may point to, without regard to the order of instructions.

    Attributes:
        places: The places of each value.
        contents: The places of the values stored in each word of a local variable.
        changed: Objects that are stored to, or known to code that is not in the module.
    """

    def __init__(self, module: binding.ModuleRef):
        self.places: dict[binding.ValueRef, set[Place]] = defaultdict(set)
        self.contents: dict[Place, set[Place]] = defaultdict(set)
        self.changed: set[Object] = set()
        self._parameters: dict[binding.ValueRef, list[binding.ValueRef]] = {}
        self._calls: dict[binding.ValueRef, list[binding.ValueRef]] = defaultdict(list)
        self._instructions = list(self._read(module))
        self._grew = False

    def _read(self, module: binding.ModuleRef) -> Iterator[_Instruction]:
        for function in module.functions:
            if function.is_declaration:
                continue
            self._parameters[function] = list(function.arguments)
            for block in function.blocks:
                for value in block.instructions:
                    opcode = value.opcode
                    if opcode in _NO_ADDRESS:
                        continue
                    yield _Instruction(value, opcode, tuple(value.operands), function)

    def run(self) -> None:
        """Applies every instruction until nothing new is found."""
        for each in self._instructions:
            if each.opcode == "alloca":
                self.places[each.value] = {(each.value, 0)}
        self._grew = True
        while self._grew:
            self._grew = False
            for each in self._instructions:
                rule = _RULES.get(each.opcode)
                if rule is not None:
                    rule(self, each)
                elif each.opcode in _SAME_ADDRESS:
                    self._flow(each.value, *each.operands)
                else:
                    self._add(each.value, _somewhere(self._of(*each.operands)))

    def _of(self, *values: binding.ValueRef) -> set[Place]:
        return set().union(*(self.places[value] for value in values if value in self.places))

    def _flow(self, target: binding.ValueRef, *sources: binding.ValueRef) -> None:
        self._add(target, self._of(*sources))

    def _add(self, target: binding.ValueRef, places: set[Place]) -> None:
        if places:
            self._grow(self.places[target], places)

    def _grow(self, known: set[Place], places: set[Place]) -> None:
        new = places - known
        # An offset that a loop moves on would never stop.
        new = {(obj, _ANYWHERE if sum(of == obj for of, _ in known) > _MOST_OFFSETS else at) for obj, at in new} - known
        if new:
            known |= new
            self._grew = True

    def _change(self, places: Iterable[Place]) -> None:
        """Notes that code may store to these places, or learn their addresses."""
        for obj, _ in list(places):
            if obj not in self.changed:
                self.changed.add(obj)
                self._grew = True
            if not isinstance(obj, int):
                self._change_contents(obj)

    def _change_contents(self, variable: Object) -> None:
        held = set().union(*(places for (obj, _), places in self.contents.items() if obj == variable))
        self._change({place for place in held if place[0] not in self.changed})

    # Rules, one for each kind of instruction.

    def _move(self, each: _Instruction) -> None:
        base, *indices = each.operands
        places = self._of(base)
        if not places:
            # An index can hide an address too.
            self._add(each.value, _somewhere(self._of(*indices)))
            return
        match = _CONSTANT_OFFSET.search(str(each.value)) if any(at is not _ANYWHERE for _, at in places) else None
        moved = {(obj, at + int(match[1]) if match and at is not _ANYWHERE else _ANYWHERE) for obj, at in places}
        self._add(each.value, moved | _somewhere(self._of(*indices)))

    def _store(self, each: _Instruction) -> None:
        value, pointer = each.operands[0], each.operands[1]
        self._store_at(self._of(value), self._of(pointer), _size(value))

    def _store_at(self, held: set[Place], places: set[Place], size: int | None) -> None:
        local = {place for place in places if not isinstance(place[0], int)}
        self._mark(places - local)
        if not held:
            return
        if not local or len(local) != len(places):
            self._change(held)  # goes to memory that is not followed
        for obj, at in local:
            self._grow(self.contents[obj, _word(at, size)], held)
            if obj in self.changed:
                self._change(held)

    def _mark(self, places: set[Place]) -> None:
        for obj, _ in places:
            if obj not in self.changed:
                self.changed.add(obj)
                self._grew = True

    def _load(self, each: _Instruction) -> None:
        self._add(each.value, self._held(self._of(each.operands[0]), _size(each.value)))

    def _held(self, places: set[Place], size: int | None) -> set[Place]:
        """What loads from these places may find; the data of inputs holds no addresses."""
        held: set[Place] = set()
        for obj, at in places:
            if isinstance(obj, int):
                continue
            word = _word(at, size)
            for (of, where), known in self.contents.items():
                if of == obj and (word is _ANYWHERE or where is _ANYWHERE or where == word):
                    held |= known
        return held

    def _exchange(self, each: _Instruction) -> None:
        pointer, *values = each.operands
        self._store_at(self._of(*values), self._of(pointer), None)
        self._add(each.value, self._held(self._of(pointer), None))

    def _return(self, each: _Instruction) -> None:
        for call in self._calls[each.function]:
            self._flow(call, *each.operands)

    def _call(self, each: _Instruction) -> None:
        *arguments, callee = each.operands
        if callee.name == PARALLEL_FOR:
            callee, *arguments = arguments[:5]
        parameters = self._parameters.get(callee)
        if parameters is not None and len(parameters) == len(arguments):
            if each.value not in self._calls[callee]:
                self._calls[callee].append(each.value)
            for parameter, argument in zip(parameters, arguments, strict=True):
                self._flow(parameter, argument)
        elif callee.name.startswith(("llvm.memcpy", "llvm.memmove")):
            target, source = arguments[:2]
            self._store_at(self._held(self._of(source), None), self._of(target), None)
        else:
            self._foreign_call(each, callee, arguments)

    def _foreign_call(
        self, each: _Instruction, callee: binding.ValueRef, arguments: Sequence[binding.ValueRef]
    ) -> None:
        held = [self._of(argument) for argument in arguments]
        name = callee.name
        if not any(held) or name.startswith(_NO_EFFECT):
            return
        if not callee.is_function:
            self._change(set().union(*held))
            return
        if name.startswith(_LOADS):
            self._add(each.value, self._held(set().union(*held), None))
            return
        reads_only = _reads_only(callee)
        declared = [list(argument.attributes) for argument in callee.arguments]
        for index, places in enumerate(held):
            attributes = declared[index] if index < len(declared) else []
            if not (reads_only or (_only_read(attributes) and _not_kept(attributes))):
                self._change({place for place in places if isinstance(place[0], int) or not name.startswith(_FILLS)})
            if not _not_kept(attributes):
                self._add(each.value, _somewhere(places | self._held(places, None)))


def _somewhere(places: set[Place]) -> set[Place]:
    return {(obj, _ANYWHERE) for obj, _ in places}


def _size(value: binding.ValueRef) -> int | None:
    return _SIZES.get(str(value.type))


def _word(at: int | None, size: int | None) -> int | None:
    """The word of a variable that an access of ``size`` bytes at an offset stays in, or None."""
    if at is _ANYWHERE or size is None or at % _WORD + size > _WORD:
        return _ANYWHERE
    return at // _WORD


def _not_kept(attributes: Sequence[bytes]) -> bool:
    return b"captures(none)" in attributes or b"nocapture" in attributes


def _reads_only(function: binding.ValueRef) -> bool:
    """Whether the function writes to no memory that the program can see."""
    text = b" ".join(function.attributes).decode()
    match = re.search(r"memory\(([^)]*)\)", text)
    if match is None:
        return False
    return "write" not in match[1].replace("inaccessiblemem: readwrite", "").replace("inaccessiblemem: write", "")


_RULES: dict[str, Callable[[_Walk, _Instruction], None]] = {
    "getelementptr": _Walk._move,
    "store": _Walk._store,
    "load": _Walk._load,
    "atomicrmw": _Walk._exchange,
    "cmpxchg": _Walk._exchange,
    "ret": _Walk._return,
    "call": _Walk._call,
    "invoke": _Walk._call,
    "alloca": lambda walk, each: None,
}
