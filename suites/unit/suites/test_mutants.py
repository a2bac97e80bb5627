"""Each broken kernel is caught by the check that it names, and no check refuses a right one."""

import re

import pytest

from bridge.languages.cuda_cpp import define
from reports import Status
from suites.backends import BACKENDS
from suites.backends.cuda_raw import NO_CUDA_CORE, RawKernel
from suites.backends.numba_cuda import CudaCallable, CudaKernel
from suites.cells import catalogue
from suites.checks.drawn import session_choices
from suites.checks.judging.evidence import CheckFailed, Evidence
from suites.checks.judging.reasons import status_of
from suites.checks.register import checks
from suites.kernels.kernel import LaunchedKernel
from suites.kernels.numba_cuda import blocks as cuda_kernels
from suites.mutants import mutants, right_kernels
from suites.unit.bridge.entries import call_in
from suites.unit.suites.named_checks import check_named
from suites.unit.suites.ptx import code_of_mlir, launches_of, ptx_of

CUDA = (CudaKernel, CudaCallable, LaunchedKernel, RawKernel)


def kernel_of(mutant):
    return mutant.operator.kernels[mutant.backend]


ON_CPU = [
    each
    for each in mutants().values()
    if kernel_of(each).unsupported("cpu") is None and "cpu" in each.backend.platforms
]


ON_CUDA = [each for each in mutants().values() if each not in ON_CPU and isinstance(kernel_of(each), CUDA)]


def named(chosen):
    return pytest.mark.parametrize("mutant", chosen, ids=lambda mutant: mutant.name)


@pytest.fixture(scope="module")
def status_by():
    """Returns a function that makes a check of an operator's kernels, and returns how the first one that fails ends."""
    catalogue.use(["suites.mutants", "suites.mutants.right_kernels"])
    session_choices.use(1, "full")

    def make(operator, name):
        cells = (cell.values[0] for cell in check_named(name).cells.cells("cpu") if not cell.marks)
        cases = [each for each in cells if each.operator is operator and each.backend is not BACKENDS["jnp"]]
        for case in cases:
            evidence = Evidence()
            try:
                check_named(name).test(case, evidence)
                evidence.finish()
            except CheckFailed as failed:
                return failed.verdict.status
            except Exception as error:
                return status_of(error)
        return Status.PASSED if cases else Status.UNCHECKED

    yield make
    catalogue.use([])
    session_choices.use(0)


def test_the_table_names_checks_and_says_what_is_wrong():
    known = {check.name for check in checks()}
    for mutant in mutants().values():
        assert set(mutant.caught_by) <= known, mutant.name
        assert 10 < len(mutant.fault) < 90
        assert not mutant.fault.endswith(".")
    assert len({mutant.fault for mutant in mutants().values()}) > 0.9 * len(mutants())
    named = {name for mutant in mutants().values() for name in mutant.caught_by}
    assert known == named


@pytest.mark.filterwarnings("ignore:.* never writes to its output")
@named(ON_CPU)
def test_a_broken_kernel_is_caught_by_the_check_that_it_names(mutant, status_by):
    found = {name: status_by(mutant.operator, name) for name in mutant.caught_by}
    assert any(status.wrong for status in found.values()), found


@named(ON_CUDA)
def test_a_broken_kernel_for_a_gpu_compiles(mutant, monkeypatch):
    declared = kernel_of(mutant)
    if mutant.backend is BACKENDS["cuda_raw"]:
        if NO_CUDA_CORE is not None:
            pytest.skip(str(NO_CUDA_CORE))
        content, *_ = define(declared.source, declared.name(mutant.operator.dtypes[0]), ()).compile("sm_90")
        assert content.startswith(b"\x7fELF")
        return
    if isinstance(declared, LaunchedKernel):
        if why := mutant.backend.missing():
            pytest.skip(why)
        call = call_in(
            mutant.operator.build(mutant.backend, inputs := mutant.operator.sample("float32", 99, 0)), *inputs
        )
        code = call.definition.compile(call.signature, 90)
        assert getattr(code, "content", code).startswith(b"\x7fELF")
        return
    if mutant.backend is BACKENDS["numba_cuda_mlir"]:
        if (missing := mutant.backend.missing()) is not None:
            pytest.skip(missing)
        assert code_of_mlir(mutant.operator, mutant.backend, "float32", monkeypatch)
        return
    if cuda_kernels.MISSING is not None:
        pytest.skip(str(cuda_kernels.MISSING))
    launches = launches_of(mutant.operator, declared, mutant.operator.dtypes[0], monkeypatch)
    assert launches
    for dispatcher, arrays, readonly in launches:
        assert re.search(r"st\.global|red\.|atom\.", ptx_of(dispatcher, arrays, readonly, (9, 0)))


@pytest.mark.parametrize("operator", right_kernels.OPERATORS, ids=lambda operator: operator.name)
def test_no_check_refuses_a_right_kernel(operator, status_by):
    names = ("drawn", "edges") if operator.edges(operator.dtypes[0]) else ("drawn",)
    names += ("repeat", "endurance", "threads") if operator.name == "counted" else ()  # into an array of rank 0
    found = {name: status_by(operator, name) for name in names}
    assert set(found.values()) == {Status.PASSED}, found
