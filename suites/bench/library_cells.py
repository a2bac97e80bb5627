"""Checks and times calls of other libraries, by the rules for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.backends.library import LibraryProgram
from suites.bench.timed_programs import Programs
from suites.cells.case import Case
from suites.checks.judging.bits import same_bits
from suites.checks.judging.blame import status_of
from suites.checks.judging.reasons import described, with_inputs
from suites.checks.judging.repetition import judge_all
from suites.numerics.arrays import Inputs
from suites.numerics.verdict import Verdict


def judge_library(case: Case, inputs: Inputs) -> Verdict:
    """Judges a call of a library on these inputs; a failure is a status with a reason, not an exception.

    It makes two calls, requires that the inputs are unchanged, and compares the results of the second one with the
    truth: a call may find the results of the one before it in its memory.

    Args:
        case: The cell. Its device must be JAX's default device, and the precision the one of the inputs.
        inputs: The inputs.
    """
    arguments = [jax.device_put(array.copy(), case.device) for array in inputs]
    try:
        run = library_program(case, inputs).bound(*arguments)
        jax.block_until_ready(run())
        results = [np.array(leaf, order="C") for leaf in jax.block_until_ready(run())]
    except Exception as error:
        return Verdict(status_of(error), described(error), None)
    if not same_bits([np.asarray(array) for array in arguments], inputs):
        return Verdict(Status.INPUT_MUTATED, "an input has other bits after the call than before", None)
    return with_inputs(judge_all(case.operator, results, inputs=inputs), case.operator, inputs)


def library_programs(case: Case, inputs: Inputs) -> Programs:
    """Returns the programs that time a call of a library: one call, and on a CPU several calls from Python.

    There is none that takes over the memory of old outputs: a library decides itself where its results go.
    """
    program = library_program(case, inputs)

    def chained(loops: int, arguments: Sequence[Any]) -> Any:
        return program.repeated(loops, arguments)

    outs = case.operator.outputs(*inputs)
    return Programs(single=program, warm=None, chained=chained if case.platform == "cpu" else None, outs=outs)


def library_program(case: Case, inputs: Inputs) -> LibraryProgram:
    """Returns the call of a cell's library as a program."""
    found: LibraryProgram = case.operator.build(case.backend, inputs)  # type: ignore[assignment]
    return found
