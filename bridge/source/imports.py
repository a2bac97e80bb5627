"""Replaces the import statements in the body of a kernel by what they import, because Numba rejects such statements.

Each name is still assigned where the statement stands. So a kernel that imports one of two functions by a condition
keeps that condition, and Numba refuses it where it cannot compile both.
"""

from __future__ import annotations

import dis
import types
from typing import Any

from bridge.errors import KernelCompileError

_LOAD, _NOTHING = dis.opmap["LOAD_CONST"], dis.opmap["NOP"]


def with_imports_done(function: types.FunctionType) -> types.FunctionType:
    """The function with the modules and functions that its body imports as constants.

    Args:
        function: A kernel as the user wrote it.

    Returns:
        ``function`` itself if its body imports nothing.

    Raises:
        KernelCompileError: It has another form of import than ``import m``, ``import m as n`` and
            ``from m import f as g``.
        ImportError: There is no such module or function.
    """
    instructions = list(dis.get_instructions(function))
    if not any(each.opname == "IMPORT_NAME" for each in instructions):
        return function
    code, constants = bytearray(function.__code__.co_code), list(function.__code__.co_consts)

    def load(at: int, value: Any) -> None:
        code[at : at + 2] = _LOAD, len(constants)
        constants.append(value)

    module: Any = None  # the one that the current `from m import f` takes names from
    for index, each in enumerate(instructions):
        if each.opname == "IMPORT_NAME":
            level, names = instructions[index - 2], instructions[index - 1]
            imported = __import__(each.argval, function.__globals__, {}, names.argval or (), level.argval)
            for nothing in (level, names):
                code[nothing.offset : nothing.offset + 2] = _NOTHING, 0
            if names.argval is None:
                load(each.offset, imported)
            else:
                module = imported
                code[each.offset : each.offset + 2] = _NOTHING, 0
        elif each.opname == "IMPORT_FROM":
            if module is None or not hasattr(module, each.argval):
                raise _refused(function, f"cannot import {each.argval!r} there")
            load(each.offset, getattr(module, each.argval))
        elif each.opname == "POP_TOP" and module is not None:
            code[each.offset : each.offset + 2] = _NOTHING, 0
            module = None
    if len(constants) > 256:  # an instruction of two bytes names no more
        raise _refused(function, f"it has {len(constants)} constants, more than 256")
    body = function.__code__.replace(co_code=bytes(code), co_consts=tuple(constants))
    done = types.FunctionType(body, function.__globals__, function.__name__, closure=function.__closure__)
    done.__defaults__, done.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    done.__qualname__, done.__module__ = function.__qualname__, function.__module__
    return done


def _refused(function: types.FunctionType, why: str) -> KernelCompileError:
    return KernelCompileError(
        f"{function.__name__} imports inside its body in a way that kernels cannot: {why}. Move the import to the "
        "top of the module."
    )
