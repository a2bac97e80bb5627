"""Functions of other libraries are checked before they are timed, and stand beside the kernels, not among them."""

import pytest

from reports import Status
from suites import Operator, OperatorError, ops
from suites.backends import BACKENDS
from suites.cells.case import Case
from suites.cells.selection import Selection
from suites.timing.timed_cell import judge_library
from suites.timing.timed_selection import timed_cells

PEERS = [
    Case(operator, backend, operator.dtypes[0], 4096, "cpu")
    for operator in ops.operators().values()
    for backend in operator.peers
    if "cpu" in backend.platforms and backend.missing() is None and backend.library.missing() is None
]


@pytest.mark.parametrize("case", PEERS, ids=lambda case: case.id)
def test_the_peers_of_the_built_in_operators_compute_what_these_compute(case):
    verdict = judge_library(case, case.inputs())
    assert verdict.status is Status.PASSED, verdict.reason


def twice(x):
    return 2 * x


def doubling(function):
    return Operator(
        name="twice", reference=twice, kernels={"pallas": twice}, dtypes="float32", peers={"numpy": function}
    )


def raising(x):
    raise RuntimeError("no such library function")


def writing(x):
    x[0] = 3
    return lambda: 2 * x


WRONG = {
    "another_shape": (lambda x: lambda: x[:1], Status.WRONG_SHAPE, "shape"),
    "an_exception": (raising, Status.RUNTIME_ERROR, "RuntimeError: no such library function"),
    "writes_to_an_input": (writing, Status.RUNTIME_ERROR, "read-only"),
}


@pytest.mark.parametrize(("function", "status", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_peer_gets_a_verdict_of_its_own(function, status, reason):
    case = Case(doubling(function), BACKENDS["numpy"], "float32", 64, "cpu")
    verdict = judge_library(case, case.inputs())
    assert verdict.status is status
    assert reason in verdict.reason


def test_no_profile_has_peers_unless_it_is_asked_for_them():
    def backends(**fields):
        cells = timed_cells(Selection(operators=("sum", "csr_matvec"), **fields))
        return {cell.backend.id for cell in cells if cell.backend.library is not None}

    assert backends() == backends(profile="full") == set()
    assert backends(peers=True) == {"numpy", "scipy", "brainevent"}


def test_a_kernel_is_no_peer_and_a_library_no_kernel():
    fields = {"name": "twice", "reference": twice, "dtypes": "float32"}
    with pytest.raises(OperatorError, match=r"peers has 'pallas', which is no library, expected one of numpy, scipy"):
        Operator(**fields, kernels={"pallas": twice}, peers={"pallas": twice})
    with pytest.raises(OperatorError, match=r"kernels has 'numpy', which is a library, .* Pass it in peers="):
        Operator(**fields, kernels={"numpy": twice})
    with pytest.raises(OperatorError, match=r"peers\['numpy'\] is a int \(3\), expected a function of NumPy arrays"):
        Operator(**fields, kernels={"pallas": twice}, peers={"numpy": 3})
