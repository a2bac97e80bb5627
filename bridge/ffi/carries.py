"""Lets kernels that may work in place update the carry of a loop, or a donated argument, in its own memory.

XLA gives the result of a foreign call other memory than its operands, unless the call says that they share it. So where
a loop carries a result on to the operand of its next turn, XLA copies the result back in each turn. If the call says
that they share memory, XLA copies the operand first wherever something else still needs it. Such a call is always
right, but slower where the operand lives on. So a call says it only where no copy can come of it: the operand is a
variable of the loop, the call is its only use, and the result becomes the variable's next value. A donated argument
of a program that becomes one of its results is the same case.

What becomes of a result shows only when the whole program is lowered. JAX reports the end of that as an event, before
it hands the program to XLA. The lowering of a call offers its pairs here, and the event decides.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence

import jax
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

LEAST_BYTES = {"cpu": 1 << 24}
"""On each platform, the smallest array whose copy costs more than what a kernel loses by sharing memory.

A loop that LLVM has vectorised for the CPU asks at run time whether its arrays overlap, and if so runs without vectors.
Small arrays stay in the cache, where a copy is cheap: 16384 floats took 18 us in place and 4 us with the copy.
"""

Pairs = Sequence[tuple[int, int]]

_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_OFFER = "bridge.in_place"
_ALIASES = "output_operand_aliases"
_DONATED = "tf.aliasing_output"


class _Offers(threading.local):
    """The programs with offers that this thread is lowering. Lowering one program may lower others.

    It holds references that keep no program alive: nothing reports a lowering that fails.
    """

    def __init__(self) -> None:
        self._programs: list[weakref.ref[ir.Module]] = []

    def programs(self) -> list[ir.Module]:
        """The programs that still exist."""
        return [program for each in self._programs if (program := each()) is not None]

    def add(self, program: ir.Module) -> None:
        """Adds a program that has its first offer. It leaves out programs whose end JAX did not report."""
        self.complete()
        self._programs.append(weakref.ref(program))

    def complete(self) -> list[ir.Module]:
        """Removes and returns the programs that are complete."""
        programs = self.programs()
        complete = [program for program in programs if _is_complete(program)]
        self._programs = [weakref.ref(program) for program in programs if program not in complete]
        return complete


_OFFERS = _Offers()


def offer(program: ir.Module, call: ir.Operation, pairs: Pairs) -> None:
    """Lets a call share the memory of operands and results where no copy can come of it.

    Args:
        program: The program, which is being lowered.
        call: The custom call.
        pairs: Pairs of operand and result that may share memory. They have one type.
    """
    # JAX may move operations while it lowers. So the call carries the offer, rather than the offer a reference to it.
    call.attributes[_OFFER] = ir.StringAttr.get(" ".join(f"{i}:{o}" for i, o in pairs), program.context)
    if program not in _OFFERS.programs():
        _OFFERS.add(program)


def _decide(event: str, duration_secs: float, **_: str | int) -> None:
    if event == _LOWERED:
        for program in _OFFERS.complete():
            _Program(program).settle()


jax.monitoring.register_event_duration_secs_listener(_decide)


def _is_complete(module: ir.Module) -> bool:
    """Whether the main function of a program has its end; JAX adds that last."""
    main = _functions(module).get("main")
    operations = [] if main is None else list(main.regions[0].blocks[0].operations)
    return bool(operations) and operations[-1].operation.name == "func.return"


def _functions(module: ir.Module) -> dict[str, ir.Operation]:
    operations = (each.operation for each in module.body.operations)
    return {_text(each, "sym_name"): each for each in operations if each.name == "func.func"}


def _text(operation: ir.Operation, attribute: str) -> str:
    return str(ir.StringAttr(operation.attributes[attribute]).value)


def _is_unchanged_between(operation: ir.Operation, pair: tuple[int, int]) -> bool:
    """Whether an operand is a variable of the block around the operation, which only the operation uses."""
    operand = operation.operands[pair[0]]
    return isinstance(operand.owner, ir.Block) and sum(1 for _ in operand.uses) == 1


class _Program:
    """Decides for the calls of one program which operands and results share memory.

    Args:
        module: The program.
    """

    def __init__(self, module: ir.Module):
        self._functions = _functions(module)
        self._sites: dict[str, list[ir.Operation]] = {}
        for function in self._functions.values():
            for each in _walk(function):
                if each.name == "func.call":
                    self._sites.setdefault(_callee(each), []).append(each)

    def settle(self) -> None:
        """Writes into each call with an offer which pairs share memory, and removes the offer."""
        for function in tuple(self._functions.values()):
            for call in [each for each in _walk(function) if _OFFER in each.attributes]:
                pairs = [tuple(map(int, pair.split(":"))) for pair in _text(call, _OFFER).split()]
                del call.attributes[_OFFER]
                self._settle(call, [(i, o) for i, o in pairs])

    def _settle(self, call: ir.Operation, pairs: Pairs) -> None:
        """Copies the functions that are called from elsewhere too."""
        copies = [call]
        for pair in pairs:
            for each in tuple(copies):
                for found in self._in_place(each, pair):
                    _share(found, pair)
                    if found not in copies:
                        copies.append(found)

    def _in_place(self, operation: ir.Operation, pair: tuple[int, int]) -> list[ir.Operation]:
        """The operation, or copies of it, where the operand is a variable that the result becomes."""
        if not _is_unchanged_between(operation, pair):
            return []
        block = operation.operands[pair[0]].owner
        if operation.block != block:
            return []
        index = ir.BlockArgument(operation.operands[pair[0]]).arg_number
        result = operation.results[pair[1]]
        last = list(block.operations)[-1].operation
        becomes = [at for at, value in enumerate(last.operands) if value == result]
        if len(becomes) != 1:
            return []
        around = block.owner.operation
        if around.name == "stablehlo.while":
            return [operation] if becomes == [index] else []
        if around.name != "func.func":
            return []
        name = _text(around, "sym_name")
        if name == "main":
            return [operation] if _donated_to(around, index) == becomes[0] else []
        sites = self._sites.get(name, [])
        good = [found for site in tuple(sites) for found in self._in_place(site, (index, becomes[0]))]
        if not good:
            return []
        if all(site in good for site in self._sites[name]):
            return [operation]
        return [self._copy_for(good, around, operation)]

    def _copy_for(self, sites: Sequence[ir.Operation], function: ir.Operation, operation: ir.Operation) -> ir.Operation:
        """Copies a function for some of the places that call it; returns the copy of an operation in it."""
        name = _text(function, "sym_name")
        names = (f"{name}_in_place_{number}" for number in range(len(self._functions) + 1))
        fresh = next(each for each in names if each not in self._functions)
        copy = function.clone(ir.InsertionPoint(function)).operation
        copy.attributes["sym_name"] = ir.StringAttr.get(fresh, function.context)
        self._functions[fresh] = copy
        for site in sites:
            site.attributes["callee"] = ir.FlatSymbolRefAttr.get(fresh, function.context)
        self._sites[name] = [site for site in self._sites[name] if site not in sites]
        self._sites[fresh] = list(sites)
        for one in _walk(copy):
            if one.name == "func.call":
                self._sites.setdefault(_callee(one), []).append(one)
        return next(new for old, new in zip(_walk(function), _walk(copy), strict=True) if old == operation)


def _walk(operation: ir.Operation) -> Iterator[ir.Operation]:
    """All operations in an operation."""
    for region in operation.regions:
        for block in region.blocks:
            for each in block.operations:
                yield each.operation
                yield from _walk(each.operation)


def _callee(operation: ir.Operation) -> str:
    return str(ir.FlatSymbolRefAttr(operation.attributes["callee"]).value)


def _donated_to(main: ir.Operation, index: int) -> int | None:
    """The result of a program that gets the memory of one of its arguments."""
    if "arg_attrs" not in main.attributes:
        return None
    attributes = ir.DictAttr(ir.ArrayAttr(main.attributes["arg_attrs"])[index])
    return ir.IntegerAttr(attributes[_DONATED]).value if _DONATED in attributes else None


def _share(call: ir.Operation, pair: tuple[int, int]) -> None:
    """Says in a custom call that an operand and a result share memory, unless one of them shares it already."""
    known = list(ir.ArrayAttr(call.attributes[_ALIASES])) if _ALIASES in call.attributes else []
    shared = [stablehlo.OutputOperandAlias(each) for each in known]
    at = [pair[1]] if len(call.results) > 1 else []
    if any(each.operand_index == pair[0] or list(each.output_tuple_indices) == at for each in shared):
        return
    with call.context:
        new = stablehlo.OutputOperandAlias.get(output_tuple_indices=at, operand_index=pair[0], operand_tuple_indices=[])
        call.attributes[_ALIASES] = ir.ArrayAttr.get([*known, new])
