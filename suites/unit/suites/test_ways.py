"""Every right way to compute something passes all drawn inputs, and every wrong way fails on one of them."""

import jax
import numba
import numpy as np
import pytest

from suites import Operator
from suites.checks.drawn.drawn_truth import battery_truths
from suites.mutants.ways import KINDS

CASES = [(kind, dtype) for kind in KINDS for dtype in kind.dtypes]


@numba.njit
def _unused(out):
    out[()] = 0


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0].name}-{case[1]}".replace(" ", "_"))
def drawn(request):
    """A kind, with the inputs of the check ``drawn`` in one dtype and their truth."""
    kind, dtype = request.param
    fields = {"sample": kind.sample, "tolerance": kind.tolerance}
    operator = Operator(
        name="way",
        reference=kind.reference,
        kernels={"numba": _unused},
        dtypes=(dtype,),
        domains=kind.domains,
        **{name: value for name, value in fields.items() if value is not None},
    )
    return kind, list(battery_truths(operator, dtype, 33))


def _verdict(way, each):
    with np.errstate(all="ignore"):
        results = way(*(array.copy() for array in each.inputs))
    return each.judge([np.asarray(leaf) for leaf in jax.tree.leaves(results)])


def test_right_ways_pass_and_wrong_ways_fail(drawn):
    kind, inputs = drawn
    refused = []
    for name, way in kind.right.items():
        for each in inputs:
            verdict = _verdict(way, each)
            if verdict.status.wrong:
                refused.append(f"{name}, pattern {each.name!r}: {verdict.reason}")
    assert not refused, "\n".join(refused)
    missed = [name for name, way in kind.wrong.items() if not any(_verdict(way, each).status.wrong for each in inputs)]
    assert not missed, f"{kind.name}: no drawn input tells these from the reference: {missed}"


def test_results_are_decided_for_most_inputs(drawn):
    _, inputs = drawn
    assert np.mean([each.share for each in inputs]) > 0.6
