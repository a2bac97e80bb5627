"""Finds elements that a kernel does not write, by running it twice on outputs filled with different patterns."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from bridge.debug.findings import Findings, Place, type_text
from bridge.ffi.kernel_call import Call, bind, kernel_call_p
from bridge.ffi.order import after
from bridge.ffi.plans.poison import pattern

_finfo: Any = jnp.finfo  # has no type annotations


def run_twice(*args: Any, call: Call, used: Sequence[bool], place: Place) -> list[Any]:
    """The results of a call, which wait for the check that the kernel has written them.

    A call with side effects runs once and is not checked. An output that holds an input is not checked either.

    Args:
        *args: The arrays of the call.
        call: A call without checks of its own.
        used: Whether something uses each of the results; the others are not checked.
        place: The call that a report is about.
    """
    if call.has_side_effect:
        return bind(call, *args)
    aliased = {output for _, output in call.aliases}
    first = bind(replace(call, poison=0), *args)
    again = bind(replace(call, poison=1), *after(args, first, place.platform))
    findings = Findings(place)
    for index, (a, b) in enumerate(zip(first, again, strict=True)):
        if used[index] and index not in aliased and a.size:
            unwritten = [_holds(part, run) for run, array in enumerate((a, b)) for part in bits(array)]
            text = functools.partial(_text, index, type_text(a), call.name)
            findings.add(functools.reduce(jnp.logical_and, unwritten), text)
    return findings.reported(first)


def _text(index: int, kind: str, kernel: str, many: str, where: str) -> str:
    return f"the kernel {kernel} did not write {many} of its output {index} ({kind}), {where}"


def _holds(words: Any, run: int) -> Any:
    """True where an array of :func:`bits` holds the pattern of a run."""
    dtype = np.dtype(words.dtype)
    byte = pattern(dtype, run)
    return words == (bool(byte) if dtype == np.bool_ else np.frombuffer(bytes([byte]) * dtype.itemsize, dtype)[0])


def bits(array: Any) -> list[Any]:
    """Arrays of integers or booleans that hold the bits of an array: two for a complex one, otherwise one."""
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return [*bits(array.real), *bits(array.imag)]
    if jnp.issubdtype(array.dtype, jnp.floating):
        size = _finfo(array.dtype).bits
        if size < 8:  # JAX lacks integers of some of these sizes
            return bits(array.astype(jnp.float32))
        return [jax.lax.bitcast_convert_type(array, f"uint{size}")]
    return [array]


checked_kernel_call_p = Primitive("checked_kernel_call")
"""A call of one kernel that finds the elements which the kernel does not write, see :func:`run_twice`."""
checked_kernel_call_p.multiple_results = True


@checked_kernel_call_p.def_effectful_abstract_eval
def _abstract(*avals: Any, call: Call, used: tuple[bool, ...], place: Place) -> Any:
    return kernel_call_p.abstract_eval(*avals, call=call)


mlir.register_lowering(checked_kernel_call_p, mlir.lower_fun(run_twice, multiple_results=True))
