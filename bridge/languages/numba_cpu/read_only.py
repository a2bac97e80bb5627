"""Shows which inputs of a compiled Numba kernel its machine code cannot change.

Numba's read-only arrays stop ``x[i] = v``, but not ``x.flat[i] = v``. So this module follows the address of each input
through the LLVM code of the kernel and of all functions that it calls. An input counts as unchanged if no store can
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

from bridge.languages.numba_cpu.calling_convention import PARALLEL_FOR, UNRESOLVED, data_arguments

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
_FILLS = "llvm.memset."
# C functions of Numba, and the arguments through which they write numbers. They only read the rest, and keep nothing.
_WRITES = {
    "NRT_Free": (),
    "numba_attempt_nocopy_reshape": (4, 5),
    "numba_xxdot": (5,),
    "numba_xxgemm": (12,),
    "numba_xxgemv": (9,),
}
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
    walk.enter(function)
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


def _instructions(function: binding.ValueRef) -> Iterator[_Instruction]:
    for block in function.blocks:
        for value in block.instructions:
            opcode = value.opcode
            if opcode not in _NO_ADDRESS:
                yield _Instruction(value, opcode, tuple(value.operands), function)


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
        self._functions = {each: each for each in module.functions}
        self._named = {each.name: each for each in self._functions}
        self._foreign: dict[binding.ValueRef, _Foreign] = {}
        self._parameters: dict[binding.ValueRef, list[binding.ValueRef]] = {}
        self._calls: dict[binding.ValueRef, list[binding.ValueRef]] = defaultdict(list)
        self._instructions: list[_Instruction] = []
        self._recursive: dict[binding.ValueRef, binding.ValueRef] = {}
        self._grew = False

    def enter(self, function: binding.ValueRef) -> list[binding.ValueRef]:
        """Reads a function that gets an address; returns its parameters."""
        if function not in self._parameters:
            self._parameters[function] = list(self._functions[function].arguments)
            self._instructions += _instructions(self._functions[function])
            self._grew = True
        return self._parameters[function]

    def run(self) -> None:
        """Applies every instruction until nothing new is found."""
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

    def _mark(self, places: Iterable[Place]) -> None:
        for obj, _ in places:
            if obj not in self.changed:
                self.changed.add(obj)
                self._grew = True

    def _load(self, each: _Instruction) -> None:
        variable = each.operands[0].name
        if variable.startswith(UNRESOLVED) and variable.removeprefix(UNRESOLVED) in self._named:
            self._recursive[each.value] = self._named[variable.removeprefix(UNRESOLVED)]
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

    def _declare(self, each: _Instruction) -> None:
        self._add(each.value, {(each.value, 0)})

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
        callee = self._recursive.get(callee, callee)
        if not self._of(*arguments):
            return
        function = self._functions.get(callee)
        if function is not None and not function.is_declaration:
            if each.value not in self._calls[callee]:
                self._calls[callee].append(each.value)
                self._grew = True
            # LLVM may give a call more operands than parameters.
            for parameter, argument in zip(self.enter(callee), arguments, strict=False):
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
        if callee.name.startswith(_NO_EFFECT):
            return
        if callee not in self._functions:  # an address, or inline assembly
            self._change(set().union(*held))
            return
        if callee.name.startswith(_LOADS):
            self._add(each.value, self._held(set().union(*held), None))
            return
        written = (0,) if callee.name.startswith(_FILLS) else _WRITES.get(callee.name)
        if written is not None:
            self._mark(place for index in written for place in held[index] if isinstance(place[0], int))
            return
        if callee not in self._foreign:
            self._foreign[callee] = _Foreign(self._functions[callee])
        function = self._foreign[callee]
        for index, places in enumerate(held):
            if not function.only_reads(index):
                self._change(places)
            if not function.forgets(index):
                self._add(each.value, _somewhere(places | self._held(places, None)))


class _Foreign:
    """What a function without code declares about itself."""

    def __init__(self, function: binding.ValueRef):
        self._arguments = [frozenset(argument.attributes) for argument in function.arguments]
        memory = re.search(r"memory\(([^)]*)\)", b" ".join(function.attributes).decode())
        # It may write to memory that the program cannot see.
        self._writes = memory is None or "write" in re.sub(r"inaccessiblemem: \w+", "", memory[1])

    def only_reads(self, index: int) -> bool:
        """Whether nothing is written by way of an argument, neither now nor later."""
        return not self._writes or (_only_read(self._of(index)) and self.forgets(index))

    def forgets(self, index: int) -> bool:
        """Whether neither the result nor any memory holds an argument when the function returns."""
        return not self._of(index).isdisjoint((b"captures(none)", b"nocapture"))

    def _of(self, index: int) -> frozenset[bytes]:
        return self._arguments[index] if index < len(self._arguments) else frozenset()


def _somewhere(places: set[Place]) -> set[Place]:
    return {(obj, _ANYWHERE) for obj, _ in places}


def _size(value: binding.ValueRef) -> int | None:
    return _SIZES.get(str(value.type))


def _word(at: int | None, size: int | None) -> int | None:
    """The word of a variable that an access of ``size`` bytes at an offset stays in, or None."""
    if at is _ANYWHERE or size is None or at % _WORD + size > _WORD:
        return _ANYWHERE
    return at // _WORD


_RULES: dict[str, Callable[[_Walk, _Instruction], None]] = {
    "getelementptr": _Walk._move,
    "store": _Walk._store,
    "load": _Walk._load,
    "atomicrmw": _Walk._exchange,
    "cmpxchg": _Walk._exchange,
    "ret": _Walk._return,
    "call": _Walk._call,
    "invoke": _Walk._call,
    "alloca": _Walk._declare,
}
