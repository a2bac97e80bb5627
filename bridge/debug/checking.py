"""Kernels that are checked while they run: the selected kernel of a call in, a function that tells what is wrong out.

The checks are put around the kernel when the call is lowered, after all of JAX's transformations. They reduce what they
find to numbers on the device, and only these reach the host, where a callback raises the report. Results wait for it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import mlir

from bridge.debug.mode import Mode, kept, kernel_modes
from bridge.errors import DebugError
from bridge.ffi.avals import align_varying, result_aval
from bridge.ffi.kernel_call import Call, bind, kernel_call_p
from bridge.ffi.order import after
from bridge.ffi.plans.poison import pattern
from bridge.operator.choice.candidates import Candidate

if TYPE_CHECKING:
    from bridge.operator.call.operator_call import OperatorCall

_finfo: Any = jnp.finfo  # it has no types

Arrays = list[Any]
Function = Callable[..., Arrays]


@dataclass(frozen=True)
class Place:
    """Where a report comes from.

    Attributes:
        operator: Its name, or that of a kernel that is called without one.
        backend: What runs, if it is an operator.
        platform: Where it runs.
        arguments: Types of the arguments, with batch dimensions.
    """

    operator: str
    backend: str | None
    platform: str
    arguments: str

    def __str__(self) -> str:
        who = self.operator if self.backend is None else f"{self.operator}, backend {self.backend}"
        return f"{who} on {self.platform}, called with {self.arguments or 'nothing'}"


@dataclass
class _Findings:
    """What the checks of one place have found, as arrays that are still being computed."""

    place: Place
    texts: list[Callable[..., str]] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    arrays: list[Arrays] = field(default_factory=list)

    def add(self, wrong: Any, text: Callable[..., str], *values: Any, about: Sequence[Any] = ()) -> None:
        """Elements that are wrong.

        Args:
            wrong: True where they are.
            text: The finding in words, from "3 of 10 elements", "the first at [2]", the first element of each of
                ``values``, and ``about``.
            *values: Arrays of the shape of ``wrong``.
            about: Further numbers.
        """
        flat = wrong.reshape(-1)
        first = jnp.argmax(flat)
        self.texts.append(text)
        self.shapes.append(wrong.shape)
        self.arrays.append([jnp.sum(flat, dtype=jnp.uint32), first, *(v.reshape(-1)[first] for v in values), *about])

    def reported(self, results: Arrays) -> Arrays:
        """The results, which the report precedes."""
        if not self.texts:
            return results
        report = _Report(self.place, tuple(self.texts), tuple(self.shapes), tuple(map(len, self.arrays)))
        done = report_p.bind(
            *align_varying(tuple(number for numbers in self.arrays for number in numbers)), report=report
        )
        return after(results, [done], self.place.platform)


@dataclass(frozen=True)
class _Report:
    """What turns findings into text: as :class:`_Findings`, with the number of arrays of each finding."""

    place: Place
    texts: tuple[Callable[..., str], ...]
    shapes: tuple[tuple[int, ...], ...]
    counts: tuple[int, ...]

    def describe(self, numbers: Sequence[Any]) -> str | None:
        """The findings in words; None if there are none."""
        given = iter(map(np.asarray, numbers))
        lines = []
        for text, shape, count in zip(self.texts, self.shapes, self.counts, strict=True):
            wrong, first, *values = [next(given) for _ in range(count)]
            if wrong:
                index = [int(i) for i in np.unravel_index(int(first), shape)]
                lines.append(text(f"{wrong} of {math.prod(shape)} elements", f"the first at {index}", *values))
        return f"{self.place}: {'; '.join(lines)}." if lines else None

    def raise_found(self, *numbers: Any) -> np.ndarray[Any, Any]:
        found = self.describe(numbers)
        if found:
            raise DebugError(found)
        return _DONE

    def keep_found(self, *numbers: Any) -> np.ndarray[Any, Any]:
        found = self.describe(numbers)
        if found:
            kept.add(found)
        return _DONE


_DONE = np.zeros((), np.uint8)

report_p = Primitive("report")
"""Reports findings on the host; its result is there when nothing was wrong."""


@report_p.def_abstract_eval
def _done(*avals: Any, report: _Report) -> Any:
    return result_aval(avals, _DONE.shape, _DONE.dtype)


def _lower_report(ctx: mlir.LoweringRuleContext, *operands: Any, report: _Report) -> Any:
    # If one of several devices fails, XLA aborts the process as soon as another one has waited for it for long enough.
    function = report.keep_found if _device_count(ctx.module_context.axis_context) > 1 else report.raise_found

    def run(*numbers: Any) -> Any:
        return jax.pure_callback(function, jax.ShapeDtypeStruct(_DONE.shape, _DONE.dtype), *numbers)

    return mlir.lower_fun(run, multiple_results=False)(ctx, *operands)


mlir.register_lowering(report_p, _lower_report)


def _device_count(context: Any) -> int:
    """Devices of the program that is being lowered; the contexts of ``shard_map`` have a mesh instead."""
    mesh = getattr(context, "mesh", None)
    return int(getattr(context, "num_devices", 1) if mesh is None else mesh.size)


def checked(call: OperatorCall, candidate: Candidate, kernel: Function, reference: Function | None) -> Function:
    """The kernel of a call with the checks that the call asks for.

    Args:
        call: The call; it has a :class:`~bridge.debug.mode.Debug`.
        candidate: Names the kernel.
        kernel: A function of (batched) arrays.
        reference: The kernel to compare with, if there is one.
    """
    assert call.debug is not None
    mode, platform = call.debug.mode, candidate.platform
    label = f"{hash(call):x}"

    def run(*args: Any) -> Arrays:
        place = Place(call.name, candidate.reference, platform, ", ".join(map(_written, args)))
        findings = _Findings(place)

        def function(*copies: Any) -> Any:
            return (_poisoned(kernel, copies, place) if mode.outputs else kernel)(*copies)

        results = _run(findings, mode, label, function, args)
        if reference is not None:
            backend = mode.reference or ""
            for index, (got, expected) in enumerate(zip(results, reference(*args), strict=True)):
                _check_reference(findings, index, got, expected, backend, mode.rtol)
        if mode.nan:
            _check_nan(findings, args, results, everywhere=mode.nan == "any")
        return findings.reported(results)

    return run


def kernel_checks() -> KernelChecks | None:
    """The checks of the mode in force here for a kernel that is called without an operator; None where there are none.

    Raises:
        DebugError: A program for several devices has found something before.
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
        if exported:
            raise not_exported(call.name)
        label = f"{hash(call):x}"

        def run(*args: Any) -> Arrays:
            place = Place(call.name, None, platform, ", ".join(map(_written, args)))
            findings = _Findings(place)

            def function(*copies: Any) -> Arrays:
                if not self.mode.outputs:
                    return bind(call, *copies)
                kernels = len(call.outputs) - len(call.code.scratch)
                used = tuple(index < kernels for index in range(len(call.outputs)))
                return _run_twice(*copies, call=call, used=used, place=place)

            results = _run(findings, self.mode, label, function, args)
            if self.mode.nan:
                _check_nan(findings, args, results, everywhere=self.mode.nan == "any")
            return findings.reported(results)

        return run


def not_exported(name: str) -> DebugError:
    """The error for a program with checks that is to be exported."""
    return DebugError(
        f"{name}: its checks call Python, which an exported program cannot hold. Trace the program outside of "
        "bridge.debug_mode, and with KERNEL_BRIDGE_DEBUG unset, to export it."
    )


def _run(findings: _Findings, mode: Mode, label: str, function: Function, args: Sequence[Any]) -> Arrays:
    """The results of a function, which is given copies of its arguments if the mode asks whether it changes them."""
    platform = findings.place.platform
    # Copies, which nothing but this kernel gets: what it writes to them is seen here and does no harm elsewhere.
    copies = after(args, (), platform, label) if mode.inputs else list(args)
    results = list(map(jnp.asarray, function(*copies)))
    if mode.inputs:
        _check_inputs(findings, args, after(copies, results, platform, label))
    return results


def _check_inputs(findings: _Findings, before: Sequence[Any], seen: Sequence[Any]) -> None:
    for index, (old, new) in enumerate(zip(before, seen, strict=True)):
        if not old.size or jnp.issubdtype(old.dtype, jax.dtypes.extended):
            continue
        changed = functools.reduce(jnp.logical_or, map(jnp.not_equal, _bits(old), _bits(new)))
        text = functools.partial(_changed_text, index, _written(old))
        findings.add(changed, text, old, new)


def _changed_text(index: int, kind: str, many: str, where: str, old: Any, new: Any) -> str:
    return f"the kernel changed {many} of its input {index} ({kind}), {where}, from {old} to {new}"


def _check_reference(
    findings: _Findings, index: int, got: Any, expected: Any, backend: str, rtol: float | None
) -> None:
    if not got.size:
        return
    if not jnp.issubdtype(got.dtype, jnp.inexact):
        findings.add(got != expected, functools.partial(_unequal_text, index, _written(got), backend), got, expected)
        return
    info = _finfo(got.dtype)
    # Two thirds of the digits: a sum in another order keeps them, a wrong kernel hardly ever.
    allowed = float(info.eps) ** (2 / 3) if rtol is None else rtol
    wide = jnp.promote_types(got.dtype, jnp.float32)
    a, b = got.astype(wide), expected.astype(wide)
    finite = jnp.isfinite(a) & jnp.isfinite(b)
    magnitude = jnp.max(jnp.where(jnp.isfinite(b), jnp.abs(b), 0))
    distance = jnp.where(finite, jnp.abs(a - b), 0)
    same = (a == b) | (jnp.isnan(a) & jnp.isnan(b))
    # The smallest normal number is for results that are flushed to zero.
    wrong = jnp.where(finite, distance > allowed * magnitude + float(info.tiny), ~same)
    text = functools.partial(_different_text, index, _written(got), backend, allowed)
    findings.add(wrong, text, got, expected, about=[jnp.max(distance), magnitude])


def _unequal_text(
    index: int, kind: str, backend: str, many: str, where: str, got: Any, expected: Any, *about: Any
) -> str:
    return f"{many} of output {index} ({kind}) differ from those of {backend}, {where}: {got}, expected {expected}"


def _different_text(index: int, kind: str, backend: str, allowed: float, *found: Any) -> str:
    *_, largest, magnitude = found
    return (
        f"{_unequal_text(index, kind, backend, *found)} (largest finite difference {largest:.3g}, allowed "
        f"{allowed:.2g} of the largest magnitude {magnitude:.3g})"
    )


def _check_nan(findings: _Findings, args: Sequence[Any], results: Sequence[Any], everywhere: bool) -> None:
    given = [jnp.isnan(arg).any() for arg in args if arg.size and jnp.issubdtype(arg.dtype, jnp.inexact)]
    looked_at = ~functools.reduce(jnp.logical_or, given) if given and not everywhere else True
    for index, result in enumerate(results):
        if result.size and jnp.issubdtype(result.dtype, jnp.inexact):
            text = functools.partial(_nan_text, index, _written(result), everywhere)
            findings.add(jnp.isnan(result) & looked_at, text)


def _nan_text(index: int, kind: str, everywhere: bool, many: str, where: str) -> str:
    return f"{many} of output {index} ({kind}) are NaN" + ("" if everywhere else ", and no input is") + f", {where}"


def unchecked(kernel: Function) -> Function:
    """A function whose calls of kernels have no checks of their own: an operator checks its kernel itself."""

    def run(*args: Any) -> Arrays:
        closed = jax.make_jaxpr(kernel)(*args)
        plain = _closed_with_checks(closed, None, None)
        return kernel(*args) if plain is closed else list(map(jnp.asarray, jaxpr_as_fun(plain)(*args)))

    return run


def _poisoned(kernel: Function, args: Sequence[Any], place: Place) -> Function:
    """The function with its calls of the bridge's kernels, also in what it calls, replaced by checked ones."""
    closed = jax.make_jaxpr(kernel)(*args)
    function: Function = jaxpr_as_fun(_closed_with_checks(closed, place, None))
    return function


Used = tuple[bool, ...] | None
"""Which results of a function something uses; None if that is not known."""

_PASSING_ON = frozenset({"jit", "pjit", "closed_call"})
"""Primitives whose results are those of the function they call."""


def _closed_with_checks(closed: ClosedJaxpr, place: Place | None, used: Used) -> ClosedJaxpr:
    jaxpr = _with_checks(closed.jaxpr, place, used)
    return closed if jaxpr is closed.jaxpr else closed.replace(jaxpr=jaxpr)


def _with_checks(jaxpr: Jaxpr, place: Place | None, used: Used) -> Jaxpr:
    results = jaxpr.outvars if used is None else itertools.compress(jaxpr.outvars, used)
    read = (*results, *(var for eqn in jaxpr.eqns for var in eqn.invars))
    variables = {var for var in read if not isinstance(var, Literal)}
    eqns = []
    for eqn in jaxpr.eqns:
        used = tuple(var in variables for var in eqn.outvars)
        if eqn.primitive is kernel_call_p:
            call = eqn.params["call"]
            plain = call if call.checks is None else replace(call, checks=None)
            if place is not None:
                params = {"call": plain, "used": used, "place": place}
                eqns.append(eqn.replace(primitive=checked_kernel_call_p, params=params))
            else:
                eqns.append(eqn if plain is call else eqn.replace(params={"call": plain}))
            continue
        inside = used if eqn.primitive.name in _PASSING_ON else None
        params = {name: _param_with_checks(value, place, inside) for name, value in eqn.params.items()}
        same = all(params[name] is value for name, value in eqn.params.items())
        eqns.append(eqn if same else eqn.replace(params=params))
    same = all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True))
    return jaxpr if same else jaxpr.replace(eqns=eqns)


def _param_with_checks(value: Any, place: Place | None, used: Used) -> Any:
    if isinstance(value, ClosedJaxpr):
        return _closed_with_checks(value, place, used)
    if isinstance(value, Jaxpr):
        return _with_checks(value, place, used)
    if type(value) in (tuple, list):
        items = [_param_with_checks(item, place, used) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    return value


checked_kernel_call_p = Primitive("checked_kernel_call")
"""A call of one kernel that finds out which elements of its outputs the kernel does not write."""
checked_kernel_call_p.multiple_results = True


@checked_kernel_call_p.def_effectful_abstract_eval
def _abstract(*avals: Any, call: Call, used: tuple[bool, ...], place: Place) -> Any:
    return kernel_call_p.abstract_eval(*avals, call=call)


def _run_twice(*args: Any, call: Call, used: tuple[bool, ...], place: Place) -> Arrays:
    aliased = {output for _, output in call.aliases}
    if call.has_side_effect:
        return bind(call, *args)
    first = bind(replace(call, poison=0), *args)
    again = bind(replace(call, poison=1), *after(args, first, place.platform))
    findings = _Findings(place)
    for index, (a, b) in enumerate(zip(first, again, strict=True)):
        if used[index] and index not in aliased and a.size:
            unwritten = [_holds(part, run) for run, array in enumerate((a, b)) for part in _bits(array)]
            text = functools.partial(_unwritten_text, index, _written(a), call.name)
            findings.add(functools.reduce(jnp.logical_and, unwritten), text)
    return findings.reported(first)


def _unwritten_text(index: int, kind: str, kernel: str, many: str, where: str) -> str:
    return f"the kernel {kernel} did not write {many} of its output {index} ({kind}), {where}"


mlir.register_lowering(checked_kernel_call_p, mlir.lower_fun(_run_twice, multiple_results=True))


def _holds(bits: Any, run: int) -> Any:
    """Where an array of :func:`_bits` holds the pattern of a run."""
    dtype = np.dtype(bits.dtype)
    byte = pattern(dtype, run)
    return bits == (bool(byte) if dtype == np.bool_ else np.frombuffer(bytes([byte]) * dtype.itemsize, dtype)[0])


def _bits(array: Any) -> Arrays:
    """Arrays of integers or booleans that hold the bits of an array."""
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return [*_bits(array.real), *_bits(array.imag)]
    if jnp.issubdtype(array.dtype, jnp.floating):
        bits = _finfo(array.dtype).bits
        if bits < 8:  # JAX has no integers of every such size
            return _bits(array.astype(jnp.float32))
        return [jax.lax.bitcast_convert_type(array, f"uint{bits}")]
    return [array]


def _written(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"
