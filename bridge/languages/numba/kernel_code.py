"""Reads the optimised LLVM code of a Numba kernel: what identifies it, and which inputs it may change.

The first is :func:`code_of`, the second :func:`changed_inputs`. Numba's read-only arrays stop ``x[i] = v``, but not
``x.flat[i] = v``. An input is passed as it is if no instruction of the kernel stores to, or hands on, an address that
was computed from the input's. For this LLVM inlines everything that the kernel calls, in a copy in which a parallel
loop is a plain call of its body. What it cannot inline counts as a change.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment

from bridge.compat import numba as compat
from bridge.errors import KernelCompileError
from bridge.kernel.generated_text import split_arguments
from bridge.kernel.llvm_code import Find, LlvmDefinition, portable_code
from bridge.kernel.shared_libraries import file_of
from bridge.languages.numba.linking import keep_only, opened


def code_of(compiled: Any, kernel: str) -> str | None:
    """What Numba made of a kernel, as text: the same in all processes of one kind of machine, with the same versions.

    None if the code refers to something that only this process has: an address, a Python object, or a function that is
    not of the C library, Python, Numba or LLVM.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel.
        kernel: Its name, for errors.

    Raises:
        KernelCompileError: The code calls a function that is not loaded. The call would end the process.
    """
    local = False

    def replace(definition: LlvmDefinition, find: Find) -> str | None:
        nonlocal local
        name = definition.name.strip('@"')
        if name.startswith(compat.DYNAMIC_GLOBALS):
            address = re.search(r"inttoptr \(i64 (\d+) to ptr\)", definition.text)
            place = _place_of(int(address[1])) if address else None
            local = local or place is None
            return place or ""
        if name.startswith(compat.ENVIRONMENT):
            environment = lookup_environment(name)
            constants = [] if environment is None else environment.consts
            local = local or not all(map(_is_plain, constants))
            return f"environment {constants!r}"
        if name.startswith(".const.missing Environment"):  # holds the generated name of the environment
            return "missing environment"
        if name.startswith((".const.picklebuf", ".const.pickledata")) and ".sha1" not in name:
            content = _pickled(definition, find)
            local = local or content is None
            return content or ""
        return None

    def outside(name: str) -> None:
        nonlocal local
        if name.startswith(("llvm.", "__svml_")):
            return
        address = binding.address_of_symbol(name)
        if not address and not compat.is_loaded(name):
            raise KernelCompileError(
                f"{kernel} calls the function {name!r}, which is not loaded in this process. Load the library that has "
                "it with llvmlite.binding.load_library_permanently."
            )
        local = local or _place_of(address) is None

    with opened(compiled) as (module, _):
        text = str(module)
    code = portable_code([text], compiled.fndesc.llvm_func_name, replace, outside)
    return None if local else f"{compiled.library.codegen.magic_tuple()}\n{code}"


def _place_of(address: int | None) -> str | None:
    """Where a function or variable lies in a file of the C library, Python, Numba or LLVM; None if in no such file."""
    libraries, packages = _known_files()
    file, base = file_of(address)
    known = file in libraries or file.startswith(packages)
    return f"{os.path.basename(file)}+{(address or 0) - base}" if known else None


@functools.cache
def _known_files() -> tuple[frozenset[str], tuple[str, ...]]:
    c = ctypes.CDLL(None)
    functions = (c.printf, c.sin, ctypes.pythonapi.Py_IncRef)
    libraries = frozenset(file_of(ctypes.cast(each, ctypes.c_void_p).value)[0] for each in functions)
    folders = (os.path.realpath(os.path.dirname(each.__file__)) for each in (numba, llvmlite))
    return libraries - {""}, tuple(folder + os.sep for folder in folders)


def _pickled(definition: LlvmDefinition, find: Find) -> str | None:
    """A Python value that compiled code holds pickled, such as an exception; None if only this process has it.

    Leaves out the place in the source that raises the exception: a kernel stays the same in another file. Numba names
    pickled values by their addresses. Two of them had the same address if one was freed before the other was made.
    """
    name = re.search(r"@\.const\.pickledata\.[.\w]+", definition.text)
    assert name is not None, definition.text
    data = re.search(r'= .*?c"(.*)"', find(name[0]).text)
    assert data is not None, name[0]
    content = pickle.loads(_ESCAPE.sub(_byte, data[1].encode()))
    match content:
        case (type() as kind, arguments, _) if _is_plain(arguments):  # an exception; the last item is its place
            content = kind.__module__, kind.__qualname__, arguments
        case _ if not _is_plain(content):
            return None
    return f"pickled {_GENERATED.sub('', repr(content))}"


_ESCAPE = re.compile(rb"\\(\\|[0-9A-F]{2})")
_GENERATED = re.compile(rf"{compat.ENVIRONMENT}\w+")


def _byte(escape: re.Match[bytes]) -> bytes:
    return b"\\" if escape[1] == b"\\" else bytes.fromhex(escape[1].decode())


def _is_plain(value: Any) -> bool:
    """Whether ``repr`` says everything about a value, in the same words in every process."""
    if type(value) in (tuple, list):
        return all(map(_is_plain, value))
    if type(value) is ir.Constant:  # stands for an argument that the code computes
        return value.constant is None
    return type(value) in _PLAIN or isinstance(value, np.generic | np.dtype)


_PLAIN = (type(None), bool, int, float, complex, str, bytes)


_STAND_INS = {
    compat.PARALLEL_FOR: f"""
        define void @{compat.PARALLEL_FOR}(ptr %body, ptr %of, ptr %extents, ptr %steps, ptr %data, i64, i64, i64) {{
          call void %body(ptr %of, ptr %extents, ptr %steps, ptr %data)
          ret void
        }}""",
    "numba_attempt_nocopy_reshape": """
        declare i32 @bridge_unknown()
        define i32 @numba_attempt_nocopy_reshape(i64, ptr, ptr, i64, ptr, ptr, i64, i32) {
          %found = call i32 @bridge_unknown()
          ret i32 %found
        }""",
}
"""What runs in the place of two functions of Numba. The second one computes strides, which say nothing of addresses."""

_READS = frozenset({"load", "icmp"})
_WRITES = frozenset({"store", "atomicrmw", "cmpxchg", "invoke", "ret"})
_MASKED_LOADS = ("llvm.masked.load.", "llvm.masked.gather.", "llvm.masked.expandload.")
_WRITTEN = {"numba_xxdot": 5, "numba_xxgemv": 9, "numba_xxgemm": 12, "NRT_Free": -1}
"""Functions of Numba that keep no address, and the argument through which each writes. What ``NRT_Free`` frees is the
copy that an assignment makes if its two arrays may overlap."""


@global_compiler_lock
def changed_inputs(compiled: Any, arrays: Sequence[types.Array]) -> tuple[int, ...]:
    """Indices of the inputs that a kernel is not shown to leave unchanged, of those that it declares read-only.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel for exactly ``arrays``.
        arrays: Numba array types, inputs then outputs.
    """
    name = compiled.fndesc.llvm_func_name
    with opened(compiled) as (module, _):
        if not (unproven := _unproven(module, name, arrays)):
            return ()
        used = [_STAND_INS[each.name] for each in module.functions if each.name in _STAND_INS and each.is_declaration]
    with opened(compiled, *used) as (module, _):
        keep_only(module, name)
        for function in module.functions:
            if not function.is_declaration and function.name != name:
                function.add_function_attribute("alwaysinline")
        _inline(module)
        unproven = _unproven(module, name, arrays)
        kernel = module.get_function(name)
        users = _users(str(kernel))
        pointers = [_LOCAL.findall(str(pointer))[-1] for pointer in compat.data_arguments(kernel, arrays)]
        return tuple(index for index in unproven if _is_changed(pointers[index], users, module))


def _unproven(module: binding.ModuleRef, name: str, arrays: Sequence[types.Array]) -> list[int]:
    """The read-only arrays that LLVM itself has not shown to stay unchanged."""
    arguments = compat.data_arguments(module.get_function(name), arrays)
    return [
        index
        for index, array in enumerate(arrays)
        if not array.mutable and {b"readonly", b"readnone"}.isdisjoint(arguments[index].attributes)
    ]


def _inline(module: binding.ModuleRef) -> None:
    for _ in range(2):  # first the loops, which call their bodies by address
        passes = binding.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.run(module, compat.pass_builder())
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()  # what tuples, and the arguments of a loop's body, hold
    passes.add_post_order_function_attributes_pass()  # of functions that call themselves
    passes.run(module, compat.pass_builder())


_NAME = r'(?:"[^"]*"|[-$.\w]+)'
_LOCAL = re.compile(rf"%{_NAME}")
_CALLEE = re.compile(rf"([@%]{_NAME})\(")
_INSTRUCTION = re.compile(rf"\s+(?:%{_NAME} = )?(?:(?:tail|musttail|notail) )?(\w+)")


def _users(function: str) -> dict[str, list[tuple[str, str]]]:
    """The instructions of a function that use each local value, as opcode and line. Of its text: an object for each
    operand would take a second."""
    users: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in function.splitlines():
        if instruction := _INSTRUCTION.match(line):
            for value in set(_LOCAL.findall(line, instruction.end())):
                users[value].append((instruction[1], line))
    return users


def _is_changed(pointer: str, users: dict[str, list[tuple[str, str]]], module: binding.ModuleRef) -> bool:
    """Whether anything may store through a pointer, or know it later: what is computed from it is an address too."""
    addresses, pending = {pointer}, [pointer]
    while pending:
        address = pending.pop()
        for opcode, line in users.get(address, ()):
            if opcode in _WRITES or (opcode == "call" and not _call_reads(line, address, module)):
                return True
            result = _LOCAL.match(line.lstrip())
            if opcode not in _READS and opcode != "call" and result and result[0] not in addresses:
                addresses.add(result[0])
                pending.append(result[0])
    return False


def _call_reads(call: str, address: str, module: binding.ModuleRef) -> bool:
    """Whether a call only reads what is at an address, and does not keep the address."""
    callee = _CALLEE.search(call)
    if callee is None or callee[1][0] == "%":
        return False  # an address, or inline assembly
    name = callee[1].strip('@"')
    places = [
        index
        for index, argument in enumerate(split_arguments(call[callee.end() :]))
        if address in _LOCAL.findall(argument)
    ]
    if name.startswith(_MASKED_LOADS):
        return True
    if name in _WRITTEN:
        return _WRITTEN[name] not in places
    parameters = [frozenset(each.attributes) for each in module.get_function(name).arguments]
    return bool(places) and all(
        index < len(parameters)
        and not parameters[index].isdisjoint((b"readonly", b"readnone"))
        and not parameters[index].isdisjoint((b"captures(none)", b"nocapture"))
        for index in places
    )
