"""Each mutant is an operator with one kernel, which builds: what catches it is a check, not a compiler."""

import re
from types import SimpleNamespace

import jax
import pytest

from suites.backends import numba_cuda_blocks as cuda_kernels
from suites.backends.backend import Backend
from suites.backends.cuda_raw import NO_CUDA_CORE
from suites.backends.numba_cuda import CudaCallable, CudaKernel
from suites.cells.selection import SelectionError
from suites.mutants import mutants
from suites.numerics.precision import precision
from suites.ops import operators
from suites.sessions.commands import command_line
from suites.unit.suites.ptx import launches_of, ptx_of


def kernel_of(mutant):
    return mutant.operator.kernels[mutant.backend]


ON_CPU = [mutant for mutant in mutants().values() if "cpu" in mutant.backend.platforms]
ON_CUDA = [mutant for mutant in mutants().values() if isinstance(kernel_of(mutant), CudaKernel | CudaCallable)]
IN_CPP = [mutant for mutant in mutants().values() if mutant.backend is Backend.CUDA_RAW]


def named(chosen):
    return pytest.mark.parametrize("mutant", chosen, ids=lambda mutant: mutant.name)


@named(mutants().values())
def test_a_mutant_is_a_good_operator_with_one_broken_kernel(mutant):
    good, found, fault = mutant.name.partition("~")
    assert found
    assert re.fullmatch(r"[a-z][a-z0-9_]*", fault)
    assert list(mutant.operator.kernels) == [mutant.backend] == list(mutant.operator.tested)
    assert mutant.operator.kernels[mutant.backend] is not operators()[good].kernels.get(mutant.backend)
    assert set(mutant.operator.dtypes) <= set(operators()[good].dtypes)
    assert 10 < len(mutant.fault) < 90
    assert not mutant.fault.endswith(".")


def test_every_kind_of_kernel_has_mutants():
    broken = {mutant.backend for mutant in mutants().values()}
    assert broken >= {Backend.NUMBA, Backend.NUMBA_PARALLEL, Backend.WARP}
    assert broken >= {Backend.NUMBA_CUDA, Backend.NUMBA_CUDA_CALLABLE, Backend.CUDA_RAW}


def test_mutants_of_one_backend_have_faults_of_their_own():
    faults = [(mutant.backend, mutant.fault) for mutant in mutants().values()]
    assert len(set(faults)) == len(faults)


@pytest.mark.filterwarnings("ignore:.* never writes to its output")
@named(ON_CPU)
def test_mutant_for_the_cpu_builds(mutant):
    operator = mutant.operator
    for dtype in operator.dtypes:
        inputs = operator.sample(dtype, operator.sizes.check[-1], 0)
        with precision(dtype):
            jax.jit(operator.build(mutant.backend, inputs)).lower(*inputs)


@pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))
@named(ON_CUDA)
def test_numba_cuda_mutant_compiles(mutant, monkeypatch):
    launches = launches_of(mutant.operator, kernel_of(mutant), mutant.operator.dtypes[0], monkeypatch)
    assert launches
    for dispatcher, arrays, readonly in launches:
        ptx = ptx_of(dispatcher, arrays, readonly, (9, 0))
        assert re.search(r"st\.global|red\.|atom\.", ptx)


@pytest.mark.skipif(NO_CUDA_CORE is not None, reason=str(NO_CUDA_CORE))
@named(IN_CPP)
def test_mutant_in_cpp_compiles(mutant):
    from bridge.languages.cuda_cpp import define

    name = kernel_of(mutant).name(mutant.operator.dtypes[0])
    content, *_ = define(kernel_of(mutant).source, name, ()).compile("sm_90")
    assert content.startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("given", "limit"), [([], 100.0), (["--profile", "deep"], 300.0), (["--profile", "deep", "--timeout", "7"], 7.0)]
)
def test_a_mutant_that_waits_forever_is_given_up(monkeypatch, given, limit):
    def validate(selection, workers, **options):
        raise SelectionError(f"limit {workers.timeout_s}")

    monkeypatch.setattr("suites.sessions.validate_command.validate", validate)
    with pytest.raises(SelectionError, match=f"limit {limit}"):
        command_line._mutants(command_line.parser().parse_args(["mutants", *given], SimpleNamespace(pytest=[])))
