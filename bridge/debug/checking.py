"""Adds the checks of debug mode to a function that runs a kernel.

The checks are added when the call is lowered, after all of JAX's transformations. Results wait for the checks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from bridge.agreement import compare, default_rtol, is_inexact
from bridge.debug.findings import Findings, Place, kept, type_text
from bridge.debug.mode import Mode, kernel_modes
from bridge.debug.unwritten_elements import bits, run_twice
from bridge.errors import DebugError
from bridge.ffi.kernel_call import Call, bind
from bridge.ffi.order import after
from bridge.ffi.table_entry import key_of

Function = Callable[..., list[Any]]


def kernel_checks() -> KernelChecks | None:
    """The checks in force for a kernel that is called without an operator; None if there are none.

    Raises:
        DebugError: An earlier program for several devices has found something.
    """
    mode = replace(kernel_modes.current(), reference=None)
    if not mode:
        return None
    kept.raise_all()
    return KernelChecks(mode)


@dataclass(frozen=True)
class KernelChecks:
    """The checks of a call of one kernel: a :class:`bridge.ffi.kernel_call.Checks`."""

    mode: Mode

    def around(self, call: Call, platform: str, exported: bool) -> Function:
        """Returns a function that makes the call and checks it, see :class:`bridge.ffi.kernel_call.Checks`."""
        if exported:
            raise not_exported(call.name)

        label = label_of(call.code.describe(platform)[1], call.aliases, call.batch)

        def run(place: Place, args: Sequence[Any]) -> list[Any]:
            # The arguments are copies, in which the changes of the kernel are found.
            made = replace(call.unguarded() if self.mode.inputs else call, whole=True)
            if self.mode.outputs:
                used = [index < len(call.results) for index in range(len(call.outputs))]
                outputs = run_twice(*args, call=made, used=used, place=place)
            else:
                outputs = bind(made, *args)
            # The kernel has not written the hidden outputs: what they hold is no finding.
            count = len(call.results)
            return [*outputs[:count], *map(jnp.zeros_like, outputs[count:])]

        def checked(*args: Any) -> list[Any]:
            findings = Findings(Place.of(call.name, None, platform, args))
            return run_checked(findings, self.mode, label, run, None, args)

        return checked


def label_of(*content: object) -> str:
    """The label of calls of this content, see :func:`run_checked`. It is the same in every process, as programs are.

    Args:
        *content: Strings, numbers, and tuples of these.
    """
    return f"{key_of(repr(content)) % 2**64:016x}"


def not_exported(name: str) -> DebugError:
    """The error for a program with checks that is to be exported."""
    return DebugError(
        f"{name}: its checks call Python, which an exported program cannot hold. Trace the program outside of "
        "bridge.debug_mode, and with KERNEL_BRIDGE_DEBUG unset, to export it."
    )


def run_checked(
    findings: Findings,
    mode: Mode,
    label: str,
    run: Callable[[Place, Sequence[Any]], list[Any]],
    reference: Function | None,
    args: Sequence[Any],
) -> list[Any]:
    """The results of a kernel, once the checks of a mode are done and have found nothing.

    Args:
        findings: Collects the findings of the checks.
        mode: The checks. ``run`` itself checks that the outputs are written.
        label: Differs between calls that must not share copies of their arguments.
        run: Runs the kernel on arrays, at a place.
        reference: Gives the right results for the arguments, to compare with; None to compare with nothing.
        args: The arrays of the call.
    """
    place = findings.place
    # Only this kernel gets these copies. A kernel that writes to them is found here, and does no harm elsewhere.
    copies = after(args, (), place.platform, label) if mode.inputs else list(args)
    results = list(map(jnp.asarray, run(place, copies)))
    if mode.inputs:
        _check_inputs(findings, args, after(copies, results, place.platform, label))
    if reference is not None:
        sizes = [math.prod(arg.shape) for arg in args]
        for index, (got, expected) in enumerate(zip(results, reference(*args), strict=True)):
            _check_reference(findings, index, got, expected, mode, sizes)
    if mode.nan:
        _check_nan(findings, args, results, everywhere=mode.nan == "any")
    return findings.reported(results)


def _check_inputs(findings: Findings, before: Sequence[Any], seen: Sequence[Any]) -> None:
    for index, (old, new) in enumerate(zip(before, seen, strict=True)):
        if not old.size or jnp.issubdtype(old.dtype, jax.dtypes.extended):
            continue
        changed = functools.reduce(jnp.logical_or, map(jnp.not_equal, bits(old), bits(new)))
        findings.add(changed, functools.partial(_changed_text, index, type_text(old)), old, new)


def _changed_text(index: int, kind: str, many: str, where: str, old: Any, new: Any) -> str:
    return f"the kernel changed {many} of its input {index} ({kind}), {where}, from {old} to {new}"


def _check_reference(findings: Findings, index: int, got: Any, expected: Any, mode: Mode, sizes: Sequence[int]) -> None:
    if not got.size:
        return
    unequal = functools.partial(_unequal_text, index, type_text(got), mode.reference or "")
    if not is_inexact(got.dtype):
        findings.add(got != expected, unequal, got, expected)
        return
    allowed = default_rtol(got.dtype, sizes) if mode.rtol is None else mode.rtol
    found = compare(jnp, got, expected, allowed)
    text = functools.partial(_different_text, unequal, allowed)
    findings.add(found.wrong, text, got, expected, about=[jnp.max(found.error), found.typical])


def _unequal_text(index: int, kind: str, backend: str, many: str, where: str, got: Any, expected: Any) -> str:
    return f"{many} of output {index} ({kind}) differ from those of {backend}, {where}: {got}, expected {expected}"


def _different_text(unequal: Callable[..., str], allowed: float, *found: Any) -> str:
    *shown, largest, typical = found
    return (
        f"{unequal(*shown)} (relative error above {allowed:.2g}; the largest finite difference is {largest:.3g}, the "
        f"typical magnitude {typical:.3g})"
    )


def _check_nan(findings: Findings, args: Sequence[Any], results: Sequence[Any], everywhere: bool) -> None:
    given = [jnp.isnan(arg).any() for arg in args if arg.size and is_inexact(arg.dtype)]
    looked_at = ~functools.reduce(jnp.logical_or, given) if given and not everywhere else True
    for index, result in enumerate(results):
        if result.size and is_inexact(result.dtype):
            text = functools.partial(_nan_text, index, type_text(result), everywhere)
            findings.add(jnp.isnan(result) & looked_at, text)


def _nan_text(index: int, kind: str, everywhere: bool, many: str, where: str) -> str:
    return f"{many} of output {index} ({kind}) are NaN" + ("" if everywhere else ", and no input is") + f", {where}"
