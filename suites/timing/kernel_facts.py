"""Tells what a fair table says of a kernel beside its time: its numbers, its launch, and how long its code is."""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import FunctionType
from typing import Any

import jax.numpy as jnp

from suites.backends.cuda_raw import RawKernel
from suites.cells.case import Case
from suites.kernels.half_precision import HALVES
from suites.kernels.kernel import LaunchedKernel
from suites.numerics.arrays import Inputs
from suites.numerics.jaxpr import equations, jaxpr_of
from suites.numerics.precision import FLOAT8, multiplies_tf32
from suites.vendors.shipped import ShippedKernel


def multiplied_matrices(case: Case) -> str | None:
    """The numbers of the matrices that tensor cores multiply in a call: a dtype, or ``TF32``; None if they do nothing.

    They exceed the rate of fused multiply-adds.
    """
    for each in _equations(case):
        if each.primitive.name == "dot_general" and all(len(factor.aval.shape) > 1 for factor in each.invars):
            dtype = str(each.invars[0].aval.dtype)
            if dtype == "float32" and multiplies_tf32(each.params["precision"]):
                return "TF32"
            if dtype in ("float64", *HALVES, FLOAT8):
                return dtype
    return None


def _equations(case: Case) -> list[Any]:
    """The operations of the reference; none if it cannot be traced."""
    try:
        return list(equations(jaxpr_of(case.operator.reference, case.operator.sample(case.dtype, 64, 0)).jaxpr))
    except Exception:  # from the reference
        return []


def arithmetic(case: Case) -> str | None:
    """The floats that the reference computes in, such as ``products of TF32, sums of float32``; None if it has none."""
    results = [each.aval.dtype for equation in _equations(case) for each in equation.outvars]
    floats = [each for each in results if jnp.issubdtype(each, jnp.floating)]
    widest = str(max(floats, key=lambda each: each.itemsize)) if floats else None
    multiplied = multiplied_matrices(case)
    return widest if multiplied in (None, widest) else f"products of {multiplied}, sums of {widest}"


def launch_of(case: Case, inputs: Inputs) -> dict[str, Any] | None:
    """The numbers that a kernel is launched with, such as the sizes of its blocks; None for most languages."""
    kernel = case.operator.kernels.get(case.backend)
    if not isinstance(kernel, LaunchedKernel):
        return None
    chosen = kernel.launch(inputs, case.operator.outputs(*inputs))
    return {name: value for name, value in chosen.items() if isinstance(value, bool | int | str)}


_HOLDERS = ("__wrapped__", "py_func", "fn", "_pyfunc", "func", "dispatcher", "kernel", "function", "make", "value")
"""Attributes of kernels, and of what languages make of functions, that lead to the function of the author."""

_BORROWED = ("suites.backends", "suites.vendors")
"""Modules whose functions call an author's kernel, or are a maker's: their lines say nothing of a kernel."""


def code_lines(kernel: Any) -> int | None:
    """How many lines of code a kernel has, with the functions of its file that it uses; None if that is unknown.

    Blank lines, comments and docstrings do not count, nor lines of closing brackets alone.
    """
    if isinstance(kernel, RawKernel):
        return sum(1 for line in kernel.source.splitlines() if line.strip())
    functions, total = [None if isinstance(kernel, ShippedKernel) else _function(kernel)], 0
    for function in functions:  # it grows
        if function is None or function.__module__.startswith(_BORROWED):
            return None
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, SyntaxError):  # of a session, or a part of a line
            return None
        nodes = list(ast.walk(tree))
        lines = {each.lineno for each in nodes if isinstance(each, ast.stmt | ast.expr | ast.arg)}
        for each in nodes:
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                lines -= set(range(each.lineno, (each.end_lineno or each.lineno) + 1))
        total += len(lines)
        used = {_function(function.__globals__.get(each.id)) for each in nodes if isinstance(each, ast.Name)}
        used = {each for each in used if each is not None and each.__module__ == function.__module__}
        functions += used.difference(functions)
    return total


def _function(holder: Any) -> FunctionType | None:
    """The function of the author, in what an operator declares or a language makes of it."""
    while holder is not None and not isinstance(holder, FunctionType):
        holder = next((getattr(holder, name) for name in _HOLDERS if hasattr(holder, name)), None)
    return holder
