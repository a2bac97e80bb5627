"""Runs kernels on the GPU, one after the other, in a process that compute-sanitizer watches.

The command starts it as ``python -m suites.sanitize.cells SELECTION``. It prints a line at the begin and end of a cell.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import jax
import msgspec

from suites.cells import catalogue
from suites.cells.case import SEED, Case
from suites.cells.selection import Selection
from suites.cells.tables import SAMPLES
from suites.checks.judging.gradients import pullback, random_cotangents
from suites.sanitize.output import MARK

_SETTLE_S = 0.05
"""Seconds after a cell in which the tool, another process, can print its findings."""


def chosen(selection: Selection) -> list[Case]:
    """Returns the cells of a selection that can run here: by default each kernel in its first dtype."""
    cells = [cell for cell in SAMPLES.chosen(selection) if not any(mark.name == "skip" for mark in cell.marks)]
    return [cell.values[0] for cell in cells if cell.values[0].backend.compiled]


def run(case: Case) -> None:
    """Calls a kernel on its sample inputs, and its derivative if it has one, and waits until the GPU has finished."""
    operator, inputs = case.operator, case.inputs()
    with case.placed():
        call = case.build(inputs)
        arguments = jax.block_until_ready(jax.device_put(inputs))
        if case.has_gradient:
            cotangents = jax.device_put(random_cotangents(operator, inputs, SEED))
            jax.block_until_ready(jax.jit(pullback(call, operator))(arguments, cotangents))
        else:
            jax.block_until_ready(jax.jit(call)(*arguments))


def main(text: str) -> int:
    """Runs the cells of a selection in JSON; returns the exit code."""
    selection = msgspec.json.decode(text, type=Selection)
    catalogue.use(selection.sources)
    for case in chosen(selection):
        _print("begin", case.id)
        kind, text = "end", case.id
        try:
            run(case)
        except Exception as error:
            message = (str(error).strip() or "without a message").splitlines()[0]
            kind, text = "failed", f"{type(error).__name__}: {message}"
        time.sleep(_SETTLE_S)
        _print(kind, text)
    return 0


def _print(kind: str, value: Any) -> None:
    print(f"\n{MARK} {kind} {json.dumps(value)}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
