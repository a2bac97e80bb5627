"""Checks that a call gives the same result again after calls of other sizes, dtypes or ranks, or calls that fail."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import jax
import numpy as np

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.tables.calls import BATCHED, FAILING, KERNELS_BETWEEN, OTHER_DTYPES, OTHER_SIZES
from suites.checks.judging.bits import fingerprint
from suites.checks.judging.call_loops import keeps_bits
from suites.checks.judging.cell_verdict import judge_results, poisoned_program
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.poisoned_runs import POISONS, run_poisoned
from suites.checks.register import check
from suites.numerics.arrays import Inputs, specs
from suites.numerics.precision import precision

EXTENT = 3
"""Elements of the batch in between."""


@check(
    "between",
    sees="what calls of other sizes, dtypes or ranks, or calls that fail, leave behind",
    cells=KERNELS_BETWEEN,
    order=57,
)
def test_call_gives_the_same_result_after_other_calls(case: Case, evidence: Evidence) -> None:
    inputs = case.operator.sample(case.dtype, case.size, SEED)
    before = _call(case, evidence, inputs, "first call")
    for what, other in _OTHERS[str(case.variant)](case, evidence):
        other()
        after = _call(case, evidence, inputs, f"after {what}")
        if keeps_bits(case) and after != before:
            evidence.fail(Status.NONDETERMINISTIC, f"after {what}: the same call has other bits than before")


def _call(case: Case, evidence: Evidence, inputs: Inputs, where: str) -> str:
    """Calls the kernel, requires the right result, and returns a digest of its bits."""
    operator, dtypes = case.operator, [array.dtype for array in inputs]
    with precision(*dtypes), jax.default_device(case.device):
        program = poisoned_program(operator, case.backend, specs(inputs), case.device)
        arguments = [jax.device_put(array) for array in inputs]
        results = run_poisoned(program, operator.outputs(*inputs), arguments, POISONS[1])
    evidence.require(judge_results(operator, inputs, results), where)
    return fingerprint(results)


_Others = Iterator[tuple[str, Callable[[], object]]]


def _sizes(case: Case, evidence: Evidence) -> _Others:
    """A smaller size and a larger one, each after the other, so that each size follows a smaller and a larger one."""
    sizes = sorted({*case.operator.sizes.check, case.size})
    for size in (*sizes, *reversed(sizes)):
        inputs = case.operator.sample(case.dtype, size, SEED + 1)
        yield f"a call of size {size}", partial(_call, case, evidence, inputs, f"size {size}")


def _dtypes(case: Case, evidence: Evidence) -> _Others:
    for dtype in case.operator.dtypes:
        if case.operator.unsupported(case.backend, case.platform, dtype) is None:
            inputs = case.operator.sample(dtype, case.size, SEED + 1)
            yield f"a call in {dtype}", partial(_call, case, evidence, inputs, dtype)


def _batch(case: Case, evidence: Evidence) -> _Others:
    operator = case.operator
    if not operator.batchable:
        return
    elements = [operator.sample(case.dtype, case.size, SEED + seed) for seed in range(EXTENT)]

    def batched() -> None:
        with precision(case.dtype), jax.default_device(case.device):
            function = jax.jit(jax.vmap(operator.build(case.backend, elements[0])))
            results = [np.asarray(leaf) for leaf in function(*map(np.stack, zip(*elements, strict=True)))]
        for index, inputs in enumerate(elements):
            found = [leaf[index] for leaf in results]
            evidence.require(judge_results(operator, inputs, found), f"element {index} of a batch")

    yield "a batch", batched


def _failures(case: Case, evidence: Evidence) -> _Others:
    """The error cases; whether they fail as they should is for the check of errors to say."""
    for error in case.operator.errors:
        if case.backend in error.failures:
            yield f"a call that fails ({error.name})", partial(_fail, case, error.inputs())


def _fail(case: Case, inputs: Inputs) -> None:
    with (
        precision(*(array.dtype for array in inputs)),
        jax.default_device(case.device),
        contextlib.suppress(Exception),
    ):
        call = case.operator.build(case.backend, inputs)
        jax.block_until_ready(call(*map(jax.device_put, inputs)))


_OTHERS = {OTHER_SIZES: _sizes, OTHER_DTYPES: _dtypes, BATCHED: _batch, FAILING: _failures}
