"""The check ``shard`` splits every axis of every input, so that it sees each wrong rule."""

import jax
import jax.numpy as jnp
import numba
import pytest

from bridge import XLACustomKernel, numba_kernel
from suites import Operator, operator_of
from suites.backends import BACKENDS
from suites.cells.case import Case
from suites.checks import test_devices
from suites.checks.judging.evidence import CheckFailed
from suites.unit.suites.named_checks import run_check


@numba.njit
def running_rows(x, out):
    for r in range(x.shape[0]):
        total = x.dtype.type(0)
        for c in range(x.shape[1]):
            total += x[r, c]
            out[r, c] = total


@numba.njit
def beside_last(x, out):
    """Adds the last element of the whole, which a part does not have."""
    for r in range(x.shape[0]):
        for c in range(x.shape[1]):
            out[r, c] = x[r, c] + x[x.shape[0] - 1, x.shape[1] - 1]


@pytest.mark.parametrize(
    ("kernel", "reference", "split"),
    [
        pytest.param(running_rows, lambda x: jnp.cumsum(x, axis=1), "c", id="the second axis alone"),
        pytest.param(running_rows, lambda x: jnp.cumsum(x, axis=1), "r c", id="both axes"),
        pytest.param(beside_last, lambda x: x + x[-1, -1], "r", id="the first axis of a matrix"),
    ],
)
def test_a_rule_that_splits_what_belongs_together_fails(kernel, reference, split):
    with pytest.raises(CheckFailed, match=r"WRONG_VALUE: .*one call, split over devices"):
        run_check("shard", *_operator(kernel, reference, split))


def test_a_right_rule_passes():
    run_check("shard", *_operator(running_rows, lambda x: jnp.cumsum(x, axis=1), "r"))


def test_every_axis_is_split_alone_and_all_together():
    operator = Operator(
        name="three", reference=lambda x, y: x + y, kernels={"numba": running_rows}, shapes=("a b c", "c")
    )
    case = Case(operator, BACKENDS["numba"], "float32", 33, "cpu")
    found = [tuple(tuple(spec) for spec in specs) for _, specs in test_devices._splits(case)]
    rows, columns = test_devices.AXES
    alone = [((rows, None, None), (None,)), ((None, rows, None), (None,)), ((None, None, rows), (None,))]
    assert {*alone, ((None, None, None), (rows,)), ((None, rows, columns), (rows,))} <= set(found)


def _operator(kernel, reference, split):
    rows = XLACustomKernel("rows", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    rows.def_numba_kernel(lambda outs: numba_kernel(kernel, outs[0]))
    rows.def_jnp_kernel(lambda outs: reference)
    rows.def_partitioning("r c -> r c", split=split)
    operator = operator_of(rows, shapes=("m n",), dtypes=("float32",))
    return operator, next(iter(operator.kernels))
