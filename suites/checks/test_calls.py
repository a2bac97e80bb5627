"""Checks calls of a kernel: alone, inside programs of JAX, and on inputs that break careless kernels."""

import jax
from jax import export

import bridge
from reports import Status
from suites.cells.case import Case
from suites.cells.tables import EDGE_CASES, EXPORTED_KERNELS, KERNELS_IN_EVERY_DTYPE, SAMPLES, TRANSFORMED_KERNELS
from suites.checks.drawn.drawn_truth import NoTruthError, drawn_truth, judge_battery, with_cure
from suites.checks.drawn.session_choices import depth
from suites.checks.judging.cell_verdict import judge_kernel, judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.reasons import error_text
from suites.checks.register import check

PATTERN_SIZES = ((33,), (33, 1031))
"""Nominal sizes of the patterns of ``drawn``, by the depth of the session."""


@check(
    "compiled",
    sees="elements never written, changed inputs, a program without the kernel; at every size and dtype",
    cells=SAMPLES,
)
def test_compiled_program_calls_the_kernel_and_writes_every_element_right(case: Case, evidence: Evidence) -> None:
    evidence.require(judge_kernel(case.operator, case.backend, case.inputs(), case.device), every_element=True)


@check("edges", sees="special values, empty inputs, degenerate structures", cells=EDGE_CASES)
def test_edge_case_is_right(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    if not operator.derives_truth:
        evidence.require(judge_kernel(operator, case.backend, inputs, case.device))
        return
    # A derived truth holds for special values only where every intermediate result is defined.
    special = drawn_truth(operator, str(case.variant), inputs)
    verdict = judge_kernel(operator, case.backend, inputs, case.device, by=special.judge)
    if verdict.status is Status.UNCHECKED and not special.share:
        evidence.seen()  # no element can be judged, but the kernel has written all elements, and no other memory
    else:
        evidence.require(with_cure(operator, inputs, verdict))


@check(
    "drawn",
    sees="special values, both zeros, extremes, ties, ordered and adversarial inputs, in all inputs or in one alone",
    cells=KERNELS_IN_EVERY_DTYPE,
)
def test_drawn_inputs_are_right(case: Case, evidence: Evidence) -> None:
    try:
        for size in PATTERN_SIZES[depth()]:
            for name, verdict in judge_battery(case.operator, case.backend, case.dtype, size, case.device):
                evidence.require(verdict, f"pattern {name!r}")
    except NoTruthError as reason:
        evidence.fail(Status.UNCHECKED, str(reason))


@check("x64", sees="dtypes that follow JAX's x64 mode", cells=TRANSFORMED_KERNELS)
def test_the_other_precision_mode_changes_nothing(case: Case, evidence: Evidence) -> None:
    """Cells of 64 bits have the mode on everywhere."""
    inputs = case.inputs()
    with jax.enable_x64(True), jax.default_device(case.device):
        call, arguments = case.build(inputs), list(map(jax.device_put, inputs))
        eager, compiled = call(*arguments), jax.jit(call)(*arguments)
    evidence.require(judge_results(case.operator, inputs, eager), "eager")
    evidence.require(judge_results(case.operator, inputs, compiled), "compiled")


@check("export", sees="code or data that a serialised program does not contain", cells=EXPORTED_KERNELS)
def test_exported_program_is_right(case: Case, evidence: Evidence) -> None:
    inputs = case.inputs()
    with case.placed():
        call = jax.jit(case.build(inputs))
        exported = export.export(call, platforms=[case.platform], disabled_checks=bridge.export_checks())
        try:
            program = export.deserialize(exported(*inputs).serialize())
        except Exception as error:  # JAX says which operation of the function it cannot serialise
            evidence.fail(Status.RUNTIME_ERROR, f"cannot be exported: {error_text(error)}")
        results = program.call(*map(jax.device_put, inputs))
    evidence.require(judge_results(case.operator, inputs, results))
