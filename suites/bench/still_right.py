"""Checks after timing that the timed program still computes: on other inputs, at the addresses of the timed ones.

The timed calls have equal inputs, so a kernel that keeps an old result, or does nothing after its first thousand calls,
looks fast and leaves right results behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.cells.case import SEED, Case, sample
from suites.checks.judging.bits import Array, fingerprint
from suites.checks.judging.call_loops import keeps_bits
from suites.checks.judging.cell_verdict import judge_results, poisoned_program
from suites.checks.judging.poisoned_runs import POISONS, run_poisoned
from suites.numerics.arrays import Inputs, specs
from suites.numerics.verdict import Verdict

OTHER_SEED = SEED + 1

_PASSED = Verdict(Status.PASSED, None, None)


class StillRight:
    """Knows what a kernel gave before it was timed, on the timed inputs and on others.

    Make it, and call it, in the precision of the inputs and with the case's device as JAX's default device.

    Args:
        case: The cell.
        inputs: The timed inputs.
    """

    def __init__(self, case: Case, inputs: Inputs):
        self._case = case
        # Digests, because a session holds many cells.
        self._before = [fingerprint(self._call(each)) for each in (inputs, self._other())]

    def verdict(self, run: Callable[[Inputs], Any]) -> Verdict:
        """Judges the timed program on the other inputs, and a single call on the timed ones.

        Args:
            run: Runs the timed program on inputs that take the addresses of the timed ones, and returns its results.
        """
        timed = [np.asarray(leaf) for leaf in jax.tree.leaves(run(self._other()))]
        found = self._same(timed, self._before[1], self._other(), "after timing, the timed program on other inputs")
        if found.status is not Status.PASSED:
            return found
        inputs = self._case.inputs()
        return self._same(self._call(inputs), self._before[0], inputs, "after timing, a single call")

    def _other(self) -> Inputs:
        return sample(self._case.operator, self._case.dtype, self._case.size, OTHER_SEED)

    def _call(self, inputs: Inputs) -> list[Array]:
        program = poisoned_program(self._case.operator, self._case.backend, specs(inputs), self._case.device)
        # Copies lie at other addresses than the timed inputs.
        arguments = [jax.device_put(array.copy()) for array in inputs]
        return run_poisoned(program, self._case.operator.outputs(*inputs), arguments, POISONS[0])

    def _same(self, results: Sequence[Array], before: str, inputs: Inputs, where: str) -> Verdict:
        if fingerprint(results) == before:
            return _PASSED
        verdict = judge_results(self._case.operator, inputs, results)
        if verdict.status is not Status.PASSED:
            return Verdict(verdict.status, f"{where}: {verdict.reason}", verdict.accuracy)
        if keeps_bits(self._case):
            return Verdict(Status.NONDETERMINISTIC, f"{where}: other bits than before it", None)
        return _PASSED
