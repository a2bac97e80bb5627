"""Identifies a compiled Numba kernel by its optimised LLVM code, and the kind of processor that this is for."""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import re
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding, ir
from numba.core.environment import lookup_environment

from bridge.compat import numba as compat
from bridge.errors import KernelCompileError
from bridge.kernel.llvm_code import Find, LlvmDefinition, portable_code
from bridge.kernel.shared_libraries import file_of
from bridge.languages.numba.linking import opened


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
