"""Identifies kernels by the LLVM code that Numba lowers, before it optimises the code for this machine.

:mod:`bridge.source.numba_notes` notes that code. Code without notes is identified by its optimised form.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import config
from numba.core.environment import lookup_environment

from bridge.source.llvm_code import Find, LlvmDefinition, portable_code
from bridge.source.numba_notes import notes_of


def code_of(compiled: Any) -> str | None:
    """What Numba made of a kernel, as text: the same in every process, and different if the machine code differs.

    None if the code refers to something that only this process has: an address, or a Python object.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel.
    """
    modules: list[str] = []
    _collect(compiled.library, modules, set())
    local = False

    def replace(definition: LlvmDefinition, find: Find) -> str | None:
        nonlocal local
        name = definition.name.strip('@"')
        if name.startswith("numba.dynamic.globals"):
            local = True
            return ""
        if name.startswith("_ZN08NumbaEnv"):
            environment = lookup_environment(name)
            constants = [] if environment is None else environment.consts
            local = local or not all(map(_is_plain, constants))
            return f"environment {constants!r}"
        if name.startswith(".const.missing Environment"):  # holds the generated name of the environment
            return "missing environment"
        if name.startswith((".const.picklebuf", ".const.pickledata")) and not name.endswith(".sha1"):
            content = _pickled(definition, find)
            local = local or content is None
            return content or ""
        return None

    code = portable_code(modules, compiled.fndesc.llvm_func_name, replace)
    return None if local else "\n".join([*_settings(), code])


def _settings() -> list[str]:
    """The settings of Numba that change the machine code without changing what is lowered."""
    names = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "CPU_NAME", "CPU_FEATURES", "ENABLE_AVX")
    return [f"{name}={getattr(config, name, None)}" for name in names]


def _collect(library: Any, modules: list[str], seen: set[Any]) -> None:
    """Adds the LLVM modules of a library and of the libraries that are linked into it."""
    if library in seen:
        return
    seen.add(library)
    notes = notes_of(library)
    if notes is None:
        modules.append(_cleaned(str(library._get_module_for_linking())))
    else:
        modules += map(_cleaned, notes)
    for linked in library._linking_libraries:
        _collect(linked, modules, seen)


def _cleaned(module: str) -> str:
    """The module without the references to Python objects that nothing uses, for example to called dispatchers."""
    parsed = llvm.parse_assembly(module)
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_aggressive_dce_pass()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    for function in parsed.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return str(parsed)


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
_GENERATED = re.compile(r"_ZN08NumbaEnv\w+")


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
