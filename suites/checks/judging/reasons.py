"""Says in words why a cell failed, on which inputs, and who is to blame: the kernel, its author, or the check.

Each kernel that failed gets one line: its most specific cause, the smallest inputs, and how to repeat it. Many checks
find the same fault. The line names the cause that says most, and counts the rest.
"""

from __future__ import annotations

import math
import re
import shlex
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.checks.judging import dependence
from suites.checks.judging.memory import WrittenBeyond
from suites.declare import answers
from suites.declare.given_inputs import input_names
from suites.declare.operator import Operator
from suites.numerics import arrays
from suites.numerics.arrays import Array, Inputs
from suites.numerics.traced import formula, has_constants
from suites.numerics.verdict import Verdict

DOUBTFUL = 1e3
"""The share of the error budget below which a reason says how the bound may be changed."""

SHOWN_ELEMENTS = 8
"""Inputs of at most so many elements are shown whole."""


def described(error: BaseException) -> str:
    """Returns the type, the message and the notes of an exception; notes name the backend or generator at fault.

    It also says where the exception came from if the kernel is not to blame.
    """
    notes = [str(note) for note in getattr(error, "__notes__", ()) if str(note).startswith("(raised ")]  # not JAX's
    place = place_outside_of_kernels(error)
    notes += [] if place is None else [f"(not from the kernel, but from {place})"]
    return " ".join([f"{type(error).__name__}: {str(error).strip() or 'without a message'}", *notes])


def with_inputs(verdict: Verdict, operator: Operator, inputs: Inputs) -> Verdict:
    """Adds the inputs to the reason of a verdict that is not PASSED.

    Short inputs, and those that are equal in nearly all places, are shown as code that makes them. Others are shown by
    shape, with the part that the worst result depends on, if trials show one.
    """
    if verdict.status is Status.PASSED:
        return verdict
    parts: Sequence[Any] = [None] * len(inputs)
    if verdict.output is not None and verdict.accuracy and any(array.size > SHOWN_ELEMENTS for array in inputs):
        parts = dependence.parts(operator, inputs, verdict.output, tuple(verdict.accuracy.worst_index or ()))
    named = zip(input_names(operator.reference, len(inputs)), inputs, parts, strict=True)
    shown = [_shown(*one) for one in named]
    separator = "; " if all(" = " in each for each in shown) else ", "
    return replace(
        verdict, reason=f"{verdict.reason}{_allowed(verdict, operator, inputs)}; inputs: {separator.join(shown)}"
    )


def _allowed(verdict: Verdict, operator: Operator, inputs: Inputs) -> str:
    """Says where a bound comes from that a result leaves by little, and what cures it."""
    used = verdict.accuracy.budget_used if verdict.accuracy else None
    if (
        verdict.status is not Status.WRONG_VALUE
        or used is None
        or not used < DOUBTFUL
        or verdict.cause
        or not operator.derives_truth
    ):
        return ""
    if operator.tolerance is not None:
        return f"; allowed by tolerance={operator.tolerance:g}"
    computed = formula(operator.reference, inputs)
    exact = (
        "; its constants count as exact, so that better ones are refused"
        if has_constants(operator.reference, inputs)
        else ""
    )
    return (
        f"; the bound holds for every order of sums and products in the reference: {computed}{exact}. If the kernel is "
        "right, declare tolerance=, or write the reference by the kernel's formula"
    )


def _shown(name: str, array: Array, part: dependence.Index | None) -> str:
    dtype = f"np.{array.dtype.name}" if array.dtype.name != "bfloat16" else "'bfloat16'"
    if not array.size:
        return f"{name} = np.zeros({array.shape}, {dtype})"
    if array.size <= SHOWN_ELEMENTS:
        return f"{name} = np.array({_text(array.tolist())}, {dtype})"
    flat = array.reshape(-1)
    rest = flat[int(np.argmax([np.sum(_equal(flat, value)) for value in flat[:SHOWN_ELEMENTS]]))]
    others = np.flatnonzero(~_equal(flat, rest))
    if others.size <= SHOWN_ELEMENTS // 2:
        size = array.size if array.ndim == 1 else array.shape
        changes = "".join(f"; {name}.flat[{i}] = {_text(flat[i].item())}" for i in others)
        return f"{name} = np.full({size}, {_text(rest.item())}, {dtype}){changes}"
    shape = f"{name}: {array.dtype}{list(array.shape)}"
    if part is None:
        return shape
    held = np.asarray(array[part]).reshape(-1)
    more = ", ..." if held.size > SHOWN_ELEMENTS else ""
    values = str(array[part]) if not array[part].ndim else f"[{_text(held[:SHOWN_ELEMENTS].tolist())[1:-1]}{more}]"
    return f"{shape}, {name}[{', '.join(':' if isinstance(i, slice) else str(i) for i in part)}] = {values}"


def _equal(flat: Array, value: Any) -> Array:
    """Where elements are a value, with the same sign of zero, or NaN if it is NaN."""
    equal = (flat == value) | ((flat != flat) & (value != value))
    return np.asarray(equal & (np.signbit(flat) == np.signbit(value)) if flat.dtype.kind == "f" else equal)


def _text(value: Any) -> str:
    """A number, or a list of numbers, as Python code."""
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, float) and math.isnan(value) and math.copysign(1.0, value) < 0:
        return "-np.nan"
    return re.sub(r"\b(nan|inf)\b", r"np.\1", repr(value))


_NUMERICS = Path(arrays.__file__).parent
_SUITES = _NUMERICS.parent
_CHECKS = tuple(_SUITES / name for name in ("checks", "cells", "guards", "validate", "processes"))
_KERNELS = (_SUITES / "backends", _SUITES / "ops", _SUITES / "mutants", _SUITES.parent / "bridge")
_LIBRARIES = ("site-packages", "dist-packages", "lib-dynload")
_ANSWERS = tuple(Path(str(module.__file__)) for module in (answers,))

_MEMORY_SIGNS = ("RESOURCE_EXHAUSTED", "CUDA_ERROR_OUT_OF_MEMORY")
"""Words in an error of XLA that says that memory is missing; it has both where CUDA's driver refuses to load code."""


def status_of(error: BaseException, of_kernel: Status = Status.RUNTIME_ERROR) -> Status:
    """Returns how a cell ends that raised an exception.

    Args:
        error: The exception.
        of_kernel: The status if the kernel is to blame.

    Returns:
        OOM if memory was missing. OUT_OF_BOUNDS for :class:`WrittenBeyond`. UNCHECKED if the author's samples,
        reference or truth raised it, or the check: that says nothing of the kernel. Else ``of_kernel``.
    """
    if isinstance(error, MemoryError) or (
        isinstance(error, jax.errors.JaxRuntimeError) and any(sign in str(error) for sign in _MEMORY_SIGNS)
    ):
        return Status.OOM
    if isinstance(error, WrittenBeyond):
        return Status.OUT_OF_BOUNDS
    return of_kernel if place_outside_of_kernels(error) is None else Status.UNCHECKED


def place_outside_of_kernels(error: BaseException) -> str | None:
    """File and line of the samples, the reference, the truth or the check, if one of them raised it; else None.

    The innermost frame that is not a library's decides between a check and a kernel. What XLA raises when it runs a
    program comes from the kernel, although a check started the program.
    """
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    for path, line in reversed(frames):
        if _NUMERICS in path.parents or path in _ANSWERS:
            return f"{path.name}:{line}"
    if isinstance(error, jax.errors.JaxRuntimeError | AssertionError | WrittenBeyond):
        return None
    for path, line in reversed(frames):
        if any(folder in path.parents for folder in _CHECKS):
            return f"the check itself, at {path.name}:{line}: please report it"
        if any(folder in path.parents for folder in _KERNELS) or not is_library(path):
            return None
    return None


def is_library(path: Path) -> bool:
    """Tells whether a file belongs to an installed package or to Python."""
    return any(name in path.parts for name in _LIBRARIES) or path.is_relative_to(sysconfig.get_path("stdlib"))


CAUSES: dict[Status, str] = {
    Status.COMPILE_ERROR: "does not compile",
    Status.UNWRITTEN_OUTPUT: "leaves elements unwritten",
    Status.OUT_OF_BOUNDS: "goes out of bounds",
    Status.CRASHED: "crashes",
    Status.INPUT_MUTATED: "changes an input",
    Status.NONDETERMINISTIC: "gives other results each time",
    Status.RUNTIME_ERROR: "raises",
    Status.WRONG_SHAPE: "has the wrong shape",
    Status.WRONG_DTYPE: "has the wrong dtype",
    Status.WRONG_VALUE: "is wrong",
    Status.TIMEOUT: "takes too long",
    Status.OOM: "runs out of memory",
    Status.LEAKED: "keeps memory",
}
"""The causes in words, the most specific first."""

IMPRECISE = "is imprecise"
MOST_IMPRECISE = 100.0
"""The share of the error budget up to which a result is called imprecise rather than wrong."""


LONGEST = 300
"""Characters of a reason."""

_INPUTS = "; inputs: "


def kernel_lines(findings: Iterable[Any], command: Sequence[str] = ("kernel-bridge", "validate")) -> list[str]:
    """Returns one line for each kernel that a check found wrong, such as::

        cube numba float32: is wrong: output 0[0]: got 5.0, truth 7.0; inputs: x = np.array([7.0], np.float32)
        (3 checks: drawn, edges, vmap). Repeat: kernel-bridge validate my_ops.py --operator cube ...

    Args:
        findings: What all checks found.
        command: The words of the command that repeats a check, with the files of operators.
    """
    kernels: dict[tuple[str, str], list[Any]] = {}
    for found in findings:
        if found.status in CAUSES:
            kernels.setdefault((found.cell.operator, found.cell.backend), []).append(found)
    return [_line(several, command) for several in kernels.values()]


def passed_lines(findings: Iterable[Any]) -> list[str]:
    """Returns one line for each operator with kernels of which every check passed: ``cube PASSED: numba (17 checks)``.

    Args:
        findings: What all checks found.
    """
    statuses: dict[tuple[str, str], list[Status]] = {}
    for finding in findings:
        statuses.setdefault((finding.cell.operator, finding.cell.backend), []).append(finding.status)
    operators: dict[str, dict[str, int]] = {}
    for (operator, backend), several in statuses.items():
        if Status.PASSED in several and not any(status.failed for status in several):
            operators.setdefault(operator, {})[backend] = several.count(Status.PASSED)
    return [
        f"{operator} PASSED: {', '.join(backends)} ({sum(backends.values())} checks)"
        for operator, backends in sorted(operators.items())
    ]


def _line(several: Sequence[Any], command: Sequence[str]) -> str:
    best = min(several, key=_rank)
    cell, cause = best.cell, IMPRECISE if _is_imprecise(best) else CAUSES[best.status]
    reason = " ".join((best.reason or "without a message").split())
    if len(reason) > LONGEST:
        reason = reason[:LONGEST] + "..."
    checks = list(dict.fromkeys(found.cell.mode for found in several))
    by = f"{len(checks)} checks: {', '.join(checks[:4])}{', ...' if len(checks) > 4 else ''}"
    words = [*command, "--operator", cell.operator, "--backend", cell.backend, "--dtype", cell.dtype]
    words += ["--device", cell.platform] if cell.platform != "cpu" else []
    return (
        f"{cell.operator} {cell.backend} {cell.dtype}: {cause}: {reason} "
        f"({by if len(checks) > 1 else f'check {checks[0]}'}). Repeat: {shlex.join(words)} -v"
    )


def _rank(found: Any) -> tuple[int, bool, bool, int, int]:
    status = list(CAUSES).index(found.status)
    return status, _is_imprecise(found), found.cause is None, _length_of_inputs(found), len(found.reason or "")


def _is_imprecise(found: Any) -> bool:
    used = found.accuracy.budget_used if found.accuracy else None
    return found.status is Status.WRONG_VALUE and used is not None and used < MOST_IMPRECISE


def _length_of_inputs(found: Any) -> int:
    """How long the inputs are as code; inputs that are not shown as code, or not at all, come last."""
    _, separator, inputs = (found.reason or "").partition(_INPUTS)
    return len(inputs) if separator and " = np." in inputs else 10_000
