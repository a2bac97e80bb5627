"""Checks the derivatives of a kernel: its adjoint, batches of it, and forward mode."""

import functools
from typing import Any

import jax
import jax.test_util
import numpy as np

from bridge import DifferentiationError
from reports import Status
from suites.cells.case import SEED, Case, stacked
from suites.cells.tables import BATCHED_GRADIENTS, DRAWN_GRADIENTS, GRADIENTS, SMALL_GRADIENTS, TANGENTS
from suites.checks.drawn.drawn_truth import DrawnTruth, NoTruthError, gradient_battery, gradient_truth, judge_shrunk
from suites.checks.drawn.many_sizes import MOST_WORK
from suites.checks.drawn.session_choices import depth, seeds_of, session_seed
from suites.checks.judging.call_loops import work
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.gradients import (
    judge_derivative,
    pullback,
    random_cotangents,
    random_directions,
    true_cotangents,
    true_second,
    true_tangents,
    with_floats,
)
from suites.checks.judging.reasons import verdict_on
from suites.checks.register import check
from suites.declare.differentiation import real_floats
from suites.numerics.arrays import specs
from suites.numerics.precision import precision
from suites.numerics.verdict import ResultVerdict

LARGER = ((4096,), (64, 4096, 2**16))
"""Nominal sizes of further derivatives, by the depth of the session; up to a fifth is added to each."""


@check("grad", sees="the derivative at every size and dtype", cells=GRADIENTS)
def test_compiled_gradient_is_right_and_made_by_the_adjoint_kernel(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    cotangents = random_cotangents(operator, inputs, SEED)
    with case.placed():
        program = jax.jit(pullback(case.build(inputs), operator)).lower(inputs, cotangents).compile()
        outs, derivatives = program(jax.device_put(inputs), jax.device_put(cotangents))
    evidence.require_calls(program, case, times=2)  # each kernel and its adjoint
    evidence.require(judge_results(operator, inputs, outs), "value", every_element=True)
    evidence.require(
        judge_derivative(derivatives, true_cotangents(operator, inputs, cotangents)), "derivative", every_element=True
    )


@check("vmap grad", sees="batches of derivatives: the rule of the adjoint", cells=BATCHED_GRADIENTS)
def test_batch_of_gradients_is_right(case: Case, evidence: Evidence) -> None:
    elements = case.samples()
    cotangents = [random_cotangents(case.operator, inputs, seed) for seed, inputs in enumerate(elements)]
    with case.placed():
        batched = jax.vmap(pullback(case.build(elements[0]), case.operator))
        _, derivatives = jax.jit(batched)(stacked(elements), stacked(cotangents))
    for index, (inputs, element_cotangents) in enumerate(zip(elements, cotangents, strict=True)):
        truth = true_cotangents(case.operator, inputs, element_cotangents)
        evidence.require(judge_derivative([leaf[index] for leaf in derivatives], truth), f"element {index}")


@check(
    "grad grad",
    sees="second derivatives that are wrong, where they should be right or refused",
    cells=BATCHED_GRADIENTS,
)
def test_second_derivative_is_right_or_refused(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    cotangents = random_cotangents(operator, inputs, SEED)
    directions = random_directions(operator, inputs, SEED, 3)
    with case.placed():
        function, floats = with_floats(case.build(inputs), operator, inputs)

        def first(*floats: jax.Array) -> list[jax.Array]:
            return list(jax.vjp(function, *floats)[1](cotangents))

        try:
            derivatives = jax.jit(lambda *floats: jax.vjp(first, *floats)[1](directions))(*map(jax.device_put, floats))
        except DifferentiationError:
            evidence.seen()  # it says which kernel has no second derivative, and what to do
            return
    truth = true_second(operator, inputs, cotangents, directions)
    evidence.require(judge_derivative(derivatives, truth))


@check("grad diff", sees="a reference whose own derivative is wrong", cells=SMALL_GRADIENTS)
def test_gradient_agrees_with_differences(case: Case, evidence: Evidence) -> None:
    """Compares with differences of the kernel's results, independent of the reference."""
    inputs = case.inputs()
    with precision("float64"), jax.default_device(case.device):
        function, floats = with_floats(case.build(inputs), case.operator, list(map(jax.device_put, inputs)))
        try:
            jax.test_util.check_grads(jax.jit(function), tuple(floats), order=1, modes=("rev",))
        except AssertionError as difference:
            evidence.require(ResultVerdict(Status.WRONG_VALUE, str(difference), None))
    evidence.seen()


@check("jvp", sees="derivatives in forward mode that are wrong, or do not agree with reverse mode", cells=TANGENTS)
def test_tangents_are_right(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    tangents = random_directions(operator, inputs, SEED)
    with case.placed():
        function, floats = with_floats(case.build(inputs), operator, inputs)
        floats, placed = list(map(jax.device_put, floats)), list(map(jax.device_put, tangents))
        outs, pushed = jax.jit(lambda floats, placed: jax.jvp(function, floats, placed))(floats, placed)
    evidence.require(judge_results(operator, inputs, outs), "value")
    evidence.require(judge_derivative(real_floats(pushed), true_tangents(operator, inputs, tangents)), "tangent")


@check(
    "drawn grad",
    sees="adjoints that are wrong at zero, for large or equal values, or beyond the first thousands of elements",
    cells=DRAWN_GRADIENTS,
)
def test_gradient_of_drawn_inputs_is_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    try:
        for drawn in gradient_battery(operator, case.dtype, case.size):
            _require_drawn(case, evidence, drawn, f"pattern {drawn.name!r}")
        random = np.random.default_rng(seeds_of("gradients", operator.name))
        for base in LARGER[depth()]:
            size = base + int(random.integers(0, base // 5 + 1))
            if 4 * work(operator, case.dtype, size) > MOST_WORK:
                continue
            where, inputs = f"size {size} (seed {session_seed()})", operator.sample(case.dtype, size, session_seed())
            _require_drawn(case, evidence, gradient_truth(operator, where, inputs), where)
    except NoTruthError as reason:
        evidence.fail(Status.UNCHECKED, str(reason))


def _require_drawn(case: Case, evidence: Evidence, drawn: DrawnTruth, where: str) -> None:
    verdict = judge_shrunk(case.operator, drawn, functools.partial(_judge, case), gradient_truth)
    evidence.require(verdict, f"derivative, {where}")


@functools.lru_cache(maxsize=16)
def _program(case: Case, inputs: Any) -> Any:
    return jax.jit(pullback(case.build(inputs), case.operator))


def _judge(case: Case, drawn: DrawnTruth) -> ResultVerdict:
    with case.placed():
        try:
            program = _program(case, specs(drawn.inputs))
            _, derivatives = program(jax.device_put(drawn.inputs), jax.device_put(drawn.cotangents))
            return drawn.judge([np.asarray(each) for each in derivatives])
        except Exception as error:
            return verdict_on(error)
