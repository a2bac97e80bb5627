"""Adds the checks of debug mode to a call of a kernel.

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

from bridge.debug.agreement import disagreeing, is_inexact
from bridge.debug.findings import Findings, after, raise_kept, type_text
from bridge.debug.mode import Mode, current_mode
from bridge.errors import DebugError
from bridge.ffi.kernel_call import Call, bind
from bridge.ffi.plans.poison import filled
from bridge.ffi.target import key_of

_finfo: Any = jnp.finfo  # has no type annotations


def kernel_checks() -> KernelChecks | None:
    """The checks in force for a kernel that is called here; None if there are none.

    Raises:
        DebugError: An earlier program for several devices has found something.
    """
    mode = replace(current_mode(), reference=None, bounds=False)
    if not mode:
        return None
    raise_kept()
    return KernelChecks(mode)


@dataclass(frozen=True)
class KernelChecks:
    """The checks of a call of one kernel: the ``checks`` of a :class:`bridge.ffi.kernel_call.Call`."""

    mode: Mode

    def around(self, call: Call, platform: str, exported: bool) -> Callable[..., list[Any]]:
        """Returns a function of the call's arrays, with batch dimensions, that makes the call and checks it.

        Raises:
            DebugError: The call is being exported; an exported program can hold no checks.
        """
        if exported:
            raise not_exported(call.name)
        # Calls with this label share copies of their arguments. It is the same in every process, as programs are.
        content = repr((self.mode.caller, call.describe(platform)[1], call.aliases, call.batch))
        label = f"{key_of(content) % 2**64:016x}"

        def checked(*args: Any) -> list[Any]:
            findings = Findings.of(self.mode.caller or call.name, platform, args)
            results = self._run(findings, call, platform, label, args)
            if self.mode.nan:
                check_nan(findings, args, results)
            return findings.reported(results)

        return checked

    def _run(self, findings: Findings, call: Call, platform: str, label: str, args: Sequence[Any]) -> list[Any]:
        made, copies = replace(call, whole=True), list(args)
        if self.mode.inputs:
            # Only this kernel gets these copies. If it writes to them, that is found here, and does no harm elsewhere.
            made = replace(made, aliases=call.aliases[: len(call.aliases) - call.guards], guards=0)
            copies = after(args, (), platform, label)
        if self.mode.outputs and not call.has_side_effect:
            runs = [bind(replace(made, poison=0), *copies)]
            runs.append(bind(replace(made, poison=1), *after(copies, runs[0], platform)))
            _check_outputs(findings, made, args, runs[0], runs[1], self.mode.rtol)
        else:
            runs = [bind(made, *copies)]
        if self.mode.inputs:
            done = [output for run in runs for output in run]
            _check_inputs(findings, call, args, after(copies, done, platform, label))
        count = len(call.used)
        return [*runs[0][:count], *map(jnp.zeros_like, runs[0][count:])]  # the kernel may leave hidden ones unwritten


def not_exported(name: str) -> DebugError:
    """The error for a program with checks that is to be exported."""
    return DebugError(
        f"{name}: its checks call Python, which an exported program cannot hold. Trace the program outside of "
        "bridge.debug_mode, and with KERNEL_BRIDGE_DEBUG unset, to export it."
    )


def _check_outputs(
    findings: Findings, call: Call, args: Sequence[Any], first: list[Any], again: list[Any], rtol: float | None
) -> None:
    """Compares two runs on outputs that held different patterns before."""
    aliased = {output for _, output in call.aliases}
    sizes = [arg.size for arg in args]
    for index, (one, other) in enumerate(zip(first[: len(call.used)], again, strict=False)):
        if index in aliased or not one.size:
            continue
        what = f"of its output {index} ({type_text(one)})"
        held = [part == filled(part.dtype, run) for run, array in enumerate((one, other)) for part in bits(array)]
        unwritten = functools.reduce(jnp.logical_and, held)
        # NaN stays the same NaN where a kernel adds to it, and so does a number that is much larger.
        findings.add(
            unwritten,
            lambda many, where, what=what: (
                f"the kernel {call.name} did not write {many} {what}, {where}, or only added to what it found there"
            ),
        )
        findings.add(
            disagreeing(jnp, other, one, sizes, rtol)[0] & ~unwritten,
            lambda many, where, a, b, what=what: (
                f"the kernel {call.name} gave {many} {what} other values when the output held other ones before, "
                f"{where}: {a} and {b}; it reads what it has not written, or is not deterministic"
            ),
            one,
            other,
        )


def _check_inputs(findings: Findings, call: Call, before: Sequence[Any], seen: Sequence[Any]) -> None:
    for index, (old, new) in enumerate(zip(before, seen, strict=True)):
        if not old.size or jnp.issubdtype(old.dtype, jax.dtypes.extended):
            continue
        changed = functools.reduce(jnp.logical_or, map(jnp.not_equal, bits(old), bits(new)))
        what = f"of its input {index} ({type_text(old)})"
        findings.add(
            changed,
            lambda many, where, a, b, what=what: (
                f"the kernel {call.name} changed {many} {what}, {where}, from {a} to {b}"
            ),
            old,
            new,
        )


def check_reference(
    findings: Findings, args: Sequence[Any], results: Sequence[Any], expected: Sequence[Any], mode: Mode
) -> None:
    """Compares results with the right ones, by the rule of :mod:`bridge.debug.agreement`."""
    sizes = [math.prod(arg.shape) for arg in args]
    for index, (got, right) in enumerate(zip(results, expected, strict=True)):
        if got.size:
            what = f"of output {index} ({type_text(got)})"
            wrong, limit = disagreeing(jnp, got, right, sizes, mode.rtol)
            findings.add(
                wrong,
                lambda many, where, got, right, what=what, limit=limit: (
                    f"{many} {what} differ from those of {mode.reference}, {where}: {got}, expected {right}{limit}"
                ),
                got,
                right,
            )


def check_nan(findings: Findings, args: Sequence[Any], results: Sequence[Any]) -> None:
    """Finds NaN in results if no argument has one."""
    given = [jnp.isnan(arg).any() for arg in args if arg.size and is_inexact(arg.dtype)]
    new = ~functools.reduce(jnp.logical_or, given) if given else True
    for index, result in enumerate(results):
        if result.size and is_inexact(result.dtype):
            what = f"of output {index} ({type_text(result)}) are NaN, and no input is"
            findings.add(jnp.isnan(result) & new, lambda many, where, what=what: f"{many} {what}, {where}")


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
