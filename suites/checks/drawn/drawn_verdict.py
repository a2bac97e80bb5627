"""Judges a kernel on drawn inputs, by the elements that are decided, and shrinks the inputs of a failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import jax

from reports import Status
from suites.backends.backend import Backend
from suites.checks.drawn.decided import Judged, Undecided, judged, judged_battery
from suites.checks.drawn.shrinking import cure, shrunk
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.reasons import with_inputs
from suites.declare.input_names import input_names
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs
from suites.numerics.verdict import Verdict


def judge_battery(
    operator: Operator, backend: Backend, dtype: str, size: int, device: jax.Device
) -> Iterator[tuple[str, Verdict]]:
    """Yields the name and the verdict of each pattern of an operator's battery; a failure is shrunk.

    Raises:
        Undecided: No element of any pattern is decided, or the operator's truth raises on drawn inputs.
    """
    battery = judged_battery(operator, dtype, size)
    if not any(each.share for each in battery):
        raise Undecided(
            f"on {len(battery)} patterns of drawn inputs of {size} elements, XLA's own code for the reference is "
            "nowhere within the error bound, so no kernel can be judged by it. Declare a truth or a tolerance."
        )
    for each in battery:
        yield each.name, _judge(operator, backend, each, device)


def judge_drawn(operator: Operator, backend: Backend, inputs: Inputs, device: jax.Device) -> Verdict:
    """Judges a kernel on inputs that were drawn elsewhere; a failure is not shrunk.

    Raises:
        Undecided: The operator's truth raises on these inputs.
    """
    verdict = _of(operator, backend, judged(operator, "drawn", inputs), device)
    return _with_cure(operator, inputs, verdict)


def _judge(operator: Operator, backend: Backend, drawn: Judged, device: jax.Device) -> Verdict:
    verdict = _of(operator, backend, drawn, device)
    if verdict.status is Status.PASSED:
        return verdict

    def again(inputs: Inputs) -> Verdict:
        return _of(operator, backend, judged(operator, drawn.name, inputs), device)

    inputs, verdict = shrunk(operator, drawn.inputs, verdict, again)
    return _with_cure(operator, inputs, verdict)


def _of(operator: Operator, backend: Backend, drawn: Judged, device: jax.Device) -> Verdict:
    return judge_kernel(operator, backend, drawn.inputs, device, by=drawn.judge)


def _with_cure(operator: Operator, inputs: Inputs, verdict: Verdict) -> Verdict:
    if verdict.status is Status.PASSED:
        return verdict
    if "; inputs: " not in (verdict.reason or ""):
        verdict = with_inputs(verdict, operator, inputs)
    advice = cure(operator, input_names(operator.reference, len(inputs)), inputs, verdict)
    return replace(verdict, reason=f"{verdict.reason} ({advice})") if advice else verdict
