"""Shows where a backend treats special values differently from ``jnp``.

It compares NaN, infinities, the sign of zero and subnormal numbers in the results of the edge cases. The operators
declare all of these differences as right, so the checks pass. A user who changes the backend may still meet them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from reports.records.cell import short_dtype
from reports.render.layout import Column, Row, Table, Text
from suites.backends.backend import Backend
from suites.cells.case import Case
from suites.cells.catalogue import operators
from suites.cells.grid import backends, why_skipped
from suites.cells.selection import Selection, SelectionError
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision

Array = np.ndarray[Any, Any]


def special_table(selection: Selection) -> Table:
    """Returns a row for each operator, backend and kind of difference, in the first float dtype that can run.

    Raises:
        SelectionError: No kernel of the selection can run, or none has floats.
    """
    platform = selection.device
    columns = (
        Column("operator", align="left"),
        Column("backend", align="left"),
        Column("dtype", align="left"),
        Column("difference", align="left"),
        Column("edge cases", align="left"),
        Column("for example", align="left"),
    )
    rows: list[Row] = []
    compared = 0
    for operator in operators().values():
        dtypes = [dtype for dtype in operator.dtypes if np.dtype(dtype).kind == "f"]
        for backend in backends(operator, platform):
            cases = [Case(operator, backend, dtype, 1, platform) for dtype in dtypes]
            runnable = [case for case in cases if case.backend is not Backend.JNP and not why_skipped(case)]
            for case in [case for case in runnable if replace(selection, sizes=()).has(case)][:1]:
                compared += 1
                rows += _rows(case)
    if not compared:
        raise SelectionError(f"no kernel with floats fits {selection} and can run here.")
    notes = (
        f"{compared} kernels were compared with jnp on the edge cases of their operators; what is not listed is alike",
        "sign of zero, NaN and infinity are those of the result; subnormal: one result is subnormal, the other zero",
    )
    return Table(f"Special values on {platform}", columns, tuple(rows), notes)


def _rows(case: Case) -> Iterator[Row]:
    found: dict[str, tuple[list[str], str]] = {}
    for name, inputs in case.operator.edges(case.dtype).items():
        results = [_results(case.operator, backend, inputs, case.device) for backend in (case.backend, Backend.JNP)]
        for kind, example in differences(*results):
            found.setdefault(kind, ([], example))[0].append(name)
    for kind, (names, example) in found.items():
        texts = (
            case.operator.name,
            case.backend.id,
            short_dtype(case.dtype),
            kind,
            ", ".join(dict.fromkeys(names)),
            example,
        )
        yield tuple(map(Text, texts))


def _results(operator: Operator, backend: Backend, inputs: Inputs, device: jax.Device) -> list[Array]:
    with precision(*(array.dtype for array in inputs)), jax.default_device(device):
        results = jax.jit(operator.build(backend, inputs))(*map(jax.device_put, inputs))
        return [np.asarray(leaf) for leaf in results]


def differences(results: Sequence[Array], others: Sequence[Array]) -> Iterator[tuple[str, str]]:
    """Yields the kinds of differences in special values from the results of ``jnp``, each with its first example."""
    for index, (ours, theirs) in enumerate(zip(results, others, strict=True)):
        if ours.dtype.kind != "f":
            continue
        tiny = np.finfo(ours.dtype).tiny
        zeros = (ours == 0) & (theirs == 0)
        small = (np.abs(ours) < tiny) & (np.abs(theirs) < tiny)
        masks = {
            "NaN": np.isnan(ours) != np.isnan(theirs),
            "infinity": (np.isinf(ours) | np.isinf(theirs)) & (ours != theirs) & ~np.isnan(ours) & ~np.isnan(theirs),
            "sign of zero": zeros & (np.signbit(ours) != np.signbit(theirs)),
            "subnormal": small & ((ours == 0) != (theirs == 0)),
        }
        for kind, mask in masks.items():
            if mask.any():
                place = tuple(int(each) for each in np.argwhere(mask)[0])
                yield kind, f"output {index}{list(place)}: {ours[place]!s}, jnp {theirs[place]!s}"
