"""Explains why a cell failed, on which inputs, and who is to blame: the kernel, its author, or the check.

Each kernel that failed gets one line: its most specific cause, the smallest inputs, and how to repeat it. If many
checks fail, the line counts them.
"""

from __future__ import annotations

import math
import re
import sysconfig
import traceback
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from reports import RunFile, Status, last_by_cell
from reports.pages.failures import failure_of
from suites.checks.judging.memory import WrittenBeyond
from suites.declare import answers
from suites.declare.input_arrays import input_names
from suites.declare.operator import Operator
from suites.numerics import arrays
from suites.numerics.arrays import Array, Inputs, kind_of
from suites.numerics.jaxpr import has_constants
from suites.numerics.verdict import ResultVerdict

DOUBTFUL = 1e3
"""If a result exceeds its bound by less than this factor, the reason says how to change the bound."""

BOUNDS_PAGE = "docs/bounds.md"

SHOWN_ELEMENTS = 8
"""Inputs with at most this many elements are shown in full."""


def error_text(error: BaseException) -> str:
    """Returns the type, the message and the notes of an exception; notes name the backend or generator at fault.

    If the kernel is not to blame, it adds the place in the code that raised the exception.
    """
    notes = [str(note) for note in getattr(error, "__notes__", ()) if str(note).startswith("(raised ")]  # not JAX's
    location = place_outside_of_kernels(error)
    notes += [] if location is None else [f"(not from the kernel, but from {location})"]
    return " ".join([f"{type(error).__name__}: {str(error).strip() or 'without a message'}", *notes])


def with_inputs(verdict: ResultVerdict, operator: Operator, inputs: Inputs) -> ResultVerdict:
    """Adds the inputs to the reason of a verdict that is not PASSED.

    Short inputs, and those with nearly all elements equal, are shown as code that makes them. Others are shown by their
    shape; an input in the shape of the result also by its element at the index of the worst result.
    """
    if verdict.status is Status.PASSED:
        return verdict
    worst: tuple[int, ...] = ()
    shape: Any = None
    if verdict.output is not None and verdict.accuracy and verdict.accuracy.worst_index:
        worst, shape = tuple(verdict.accuracy.worst_index), operator.outputs(*inputs)[verdict.output].shape
    names = input_names(operator.reference, len(inputs))
    shown = [
        _shown(name, array, worst if array.shape == shape else None) for name, array in zip(names, inputs, strict=True)
    ]
    separator = "; " if all(" = " in each for each in shown) else ", "
    return replace(
        verdict, reason=f"{verdict.reason}{_allowed(verdict, operator, inputs)}; inputs: {separator.join(shown)}"
    )


def _allowed(verdict: ResultVerdict, operator: Operator, inputs: Inputs) -> str:
    """Returns where the bound comes from, and a cure, for a result that is outside of its bound by little."""
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
    exact = (
        "; its constants count as exact, so that better ones are refused"
        if has_constants(operator.reference, inputs)
        else ""
    )
    return (
        f"; the bound holds for every order of sums and products in the reference{exact}. If the kernel is "
        "right, declare tolerance=, or write the reference by the kernel's formula"
    )


def _shown(name: str, array: Array, index: tuple[int, ...] | None) -> str:
    dtype = f"np.{array.dtype.name}" if hasattr(np, array.dtype.name) else repr(array.dtype.name)
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
    return shape if index is None else f"{shape}, {name}[{', '.join(map(str, index))}] = {array[index]}"


def _equal(flat: Array, value: Any) -> Array:
    """Returns where elements equal a value, with the same sign of zero; NaN equals NaN."""
    equal = (flat == value) | ((flat != flat) & (value != value))
    return np.asarray(equal & (np.signbit(flat) == np.signbit(value)) if kind_of(flat.dtype) == "f" else equal)


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
_ANSWERS = Path(answers.__file__)

_FROM_XLA = re.compile(r"[A-Z_]+: ")
"""How the message of an error in a program begins: with the name of its code, such as ``INTERNAL``."""

_MEMORY_SIGNS = ("RESOURCE_EXHAUSTED", "CUDA_ERROR_OUT_OF_MEMORY")
"""Words in an error of XLA for missing memory. The error has both if CUDA's driver refuses to load code."""


def status_of(error: BaseException, of_kernel: Status = Status.RUNTIME_ERROR) -> Status:
    """Returns the status of a cell that raised an exception.

    Args:
        error: The exception.
        of_kernel: The status if the kernel is to blame.

    Returns:
        OOM if memory was missing. OUT_OF_BOUNDS for :class:`WrittenBeyond`. UNCHECKED if the check raised it, or the
        author's samples, reference or truth: the kernel is not to blame. Else ``of_kernel``.
    """
    if isinstance(error, MemoryError) or (_is_from_xla(error) and any(sign in str(error) for sign in _MEMORY_SIGNS)):
        return Status.OOM
    if isinstance(error, WrittenBeyond):
        return Status.OUT_OF_BOUNDS
    return of_kernel if place_outside_of_kernels(error) is None else Status.UNCHECKED


def place_outside_of_kernels(error: BaseException) -> str | None:
    """Returns file and line if the samples, the reference, the truth or the check raised an exception; else None.

    The innermost frame outside of libraries decides between a check and a kernel. An exception that XLA raises in a
    program comes from the kernel, although a check started the program.
    """
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    for path, line in reversed(frames):
        if _NUMERICS in path.parents or path == _ANSWERS:
            return f"{path.name}:{line}"
    if _is_from_xla(error) or isinstance(error, AssertionError | WrittenBeyond):
        return None
    for path, line in reversed(frames):
        if any(folder in path.parents for folder in _CHECKS):
            return f"the check itself, at {path.name}:{line}: please report it"
        if any(folder in path.parents for folder in _KERNELS) or not is_library(path):
            return None
    return None


def _is_from_xla(error: BaseException) -> bool:
    # A program that ran well before raises a ValueError.
    return isinstance(error, jax.errors.JaxRuntimeError) or (
        isinstance(error, ValueError) and _FROM_XLA.match(str(error)) is not None
    )


def verdict_on(error: Exception, of_kernel: Status = Status.RUNTIME_ERROR) -> ResultVerdict:
    """Returns the verdict on a kernel that raised an exception.

    Raises:
        Exception: The error itself, if the kernel is not to blame.
    """
    status = status_of(error, of_kernel)
    if status is Status.UNCHECKED:
        raise error
    return ResultVerdict(status, error_text(error), None)


def is_library(path: Path) -> bool:
    """Tells whether a file belongs to an installed package or to Python."""
    return any(name in path.parts for name in _LIBRARIES) or path.is_relative_to(sysconfig.get_path("stdlib"))


def verdict_lines(run: RunFile) -> tuple[list[str], list[str]]:
    """Returns :func:`passed_lines` and :func:`failure_lines` of a run, also of its earlier sessions and parts."""
    records = last_by_cell(run.records)
    return passed_lines(records), failure_lines(records, (run.headers[0].selection or {}).get("source", ()))


def failure_lines(findings: Collection[Any], sources: Sequence[str]) -> list[str]:
    """Returns a line for each kernel that failed, and names operators whose reference fails, too. Such as::

        cube numba float32: is wrong: output 0[0]: got 5.0, truth 7.0; inputs: x = np.array([7.0], np.float32)
        (3 checks: drawn, edges, vmap). Repeat: kernel-bridge validate my_ops.py --operator cube ...

    Args:
        findings: The findings, or the records, of all checks.
        sources: The files of the operators.
    """
    kernels: dict[tuple[str, str], list[Any]] = {}
    for finding in findings:
        if finding.status.failed and finding.status is not Status.UNCHECKED:
            kernels.setdefault((finding.cell.operator, finding.cell.backend), []).append(finding)
    found = [failure_of(several, ("kernel-bridge", "validate", *sources)) for several in kernels.values()]
    doubtful = {each.cell.operator for each in findings if each.status.wrong and each.cell.backend == "jnp"}
    return [f"{kernel}: {text}. Repeat: {repeats}" for kernel, text, repeats in found] + [
        f"{operator}: jnp fails too. The reference or its error bound may be wrong; see {BOUNDS_PAGE}"
        for operator in sorted(doubtful)
    ]


def passed_lines(findings: Iterable[Any]) -> list[str]:
    """Returns one line for each operator with kernels of which every check passed: ``cube PASSED: numba (17 checks)``.

    Args:
        findings: The findings of all checks.
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
