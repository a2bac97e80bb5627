"""Emits the code that reports an exception which a compiled Numba kernel has raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from bridge.ffi.native.handler import c_string

_I64 = ir.IntType(64)


def emit_report(context: Any, builder: Any, api: Any, report: Callable[..., int], subject: str) -> Any:
    """Emits code that clears the current Python exception and reports it.

    The code runs with the GIL held and an exception set. It imports ``report``, a public function of a module, by name
    and calls ``report(subject, kind, value, traceback)``. The last two arguments may be missing.

    Returns:
        The 64-bit result of ``report``, or the address of a C string if it failed.
    """
    fetched = [cgutils.alloca_once_value(builder, cgutils.get_null_value(api.pyobj)) for _ in range(3)]
    api.err_fetch(*fetched)
    module = api.import_module(context.insert_const_string(builder.module, report.__module__))
    function = api.object_getattr_string(module, report.__name__)
    subject_object = api.string_from_string(context.insert_const_string(builder.module, subject))
    # The first reference that is NULL ends the argument list.
    answer = api.call_function_objargs(function, [subject_object, *map(builder.load, fetched)])
    result = cgutils.alloca_once_value(
        builder, _I64(c_string("the kernel raised an exception that has no description"))
    )
    with cgutils.if_likely(builder, cgutils.is_not_null(builder, answer)):
        builder.store(api.long_as_longlong(answer), result)
        api.decref(answer)
    api.err_clear()
    for reference in (subject_object, function, module, *map(builder.load, fetched)):
        api.decref(reference)
    return builder.load(result)
