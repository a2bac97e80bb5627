"""Mutants: every kernel of the project has some, and the operator of a mutant has the faulty kernel alone."""

import collections
import inspect
import sys

import pytest

from suites import ops
from suites.backends import numba_cpu, numba_cuda_blocks, numba_cuda_warps
from suites.backends.backend import Backend
from suites.backends.cuda_raw import NO_CUDA_CORE
from suites.mutation.fault import KINDS
from suites.mutation.kernel_functions import kernel_functions
from suites.mutation.mutated import HELPERS, built, home_of, mutants
from suites.mutation.reviewed import REVIEWED, why_no_fault
from suites.mutation.same_results import code_of, runnable, same_results


@pytest.fixture(scope="module")
def on_cpu():
    return mutants("cpu")


@pytest.fixture(scope="module")
def on_cuda():
    return mutants("cuda")


def one(found, module, kind, after):
    """The first mutant of a module with this fault."""
    return next(
        mutant
        for mutant in found
        if mutant.module.endswith(f".{module}") and (mutant.fault.kind, mutant.fault.after) == (kind, after)
    )


def test_several_hundred_mutants_in_every_language(on_cpu, on_cuda):
    assert collections.Counter(mutant.language for mutant in on_cpu)["numba"] > 1000
    assert collections.Counter(mutant.language for mutant in on_cpu)["warp"] > 500
    languages = collections.Counter(mutant.language for mutant in on_cuda)
    assert languages["warp"] > 500
    if numba_cuda_blocks.MISSING is None:
        assert languages["numba_cuda"] > 1000
    if NO_CUDA_CORE is None:
        assert languages["cuda_raw"] > 100


def test_names_are_unique_and_kinds_are_known(on_cpu, on_cuda):
    for found in (on_cpu, on_cuda):
        assert len({mutant.name for mutant in found}) == len(found)
        assert {mutant.fault.kind for mutant in found} <= {*KINDS}


def test_every_kind_of_fault_fits_somewhere(on_cpu, on_cuda):
    if numba_cuda_blocks.MISSING is None:
        assert {mutant.fault.kind for mutant in (*on_cpu, *on_cuda)} == {*KINDS}


def test_every_operator_and_every_file_of_helpers_has_mutants(on_cpu):
    reached = {name for mutant in on_cpu for name, _ in mutant.targets}
    assert reached == {*ops.operators()}
    modules = {mutant.module for mutant in on_cpu}
    assert {"suites.backends.numba_cpu_blocks", "suites.backends.warp_blocks"} < modules


def test_every_file_of_functions_that_kernels_call_has_mutants(on_cpu, on_cuda):
    # These only launch kernels, or write the text of kernels in C++, which has mutants of its own.
    names = ("cuda_raw", "cuda_raw_blocks", "numba_cuda_device_facts", "pallas", "warp")
    launching = {f"suites.backends.{name}" for name in names}
    modules = frozenset(name for name in sys.modules if name.startswith(("suites.backends.", "suites.ops.")))
    kernels = [kernel for operator in ops.operators().values() for kernel in operator.kernels.values()]
    reached = {place.module for kernel in kernels for place in kernel_functions(kernel, modules)}
    helpers = {name for name in reached if name.startswith("suites.backends.")} - launching
    assert helpers <= {*HELPERS}
    if numba_cuda_blocks.MISSING is None:
        assert helpers == {*HELPERS}
        assert {mutant.module for mutant in (*on_cpu, *on_cuda)} > helpers


@pytest.mark.skipif(numba_cuda_blocks.MISSING is not None, reason=str(numba_cuda_blocks.MISSING))
def test_a_function_that_the_compiler_replaces_has_no_mutants(on_cuda):
    lines = [mutant.fault.line for mutant in on_cuda if mutant.module == numba_cuda_warps.__name__]
    for function, has_some in (
        (numba_cuda_warps.votes, False),
        (numba_cuda_warps._overload_votes, False),
        (numba_cuda_warps.shuffle_up, False),
        (numba_cuda_warps.slots_of_group, True),
    ):
        source, first = inspect.getsourcelines(getattr(function, "py_func", function))
        assert any(first <= line < first + len(source) for line in lines) is has_some, function


def test_references_truths_and_samples_have_no_mutants(on_cpu):
    sources = {home_of(name): inspect.getsource(sys.modules[home_of(name)]) for name in ops.operators()}
    for mutant in on_cpu:
        source = sources.get(mutant.module)
        if source is None:
            continue
        before = source.splitlines()[: mutant.fault.line]
        function = next(line for line in reversed(before) if line.startswith(("def ", "OPERATOR")))
        assert not function.startswith(("def _truth", "def _reference", "def _sample", "def _edges")), mutant.name


def test_a_helper_that_replaces_another_one_for_numba_has_mutants(on_cpu):
    assert any("leading" in mutant.fault.before or "shifter" in mutant.fault.before for mutant in on_cpu)


def test_sources_with_faults_are_python(on_cpu, on_cuda):
    for mutant in [*on_cpu[::60], *on_cuda[::60]]:
        if not mutant.in_text:
            compile(mutant.fault.applied(mutant.source), mutant.name, "exec")


def test_an_operator_with_a_fault_in_its_own_file(on_cpu, tmp_path):
    before = dict(sys.modules)
    mutant = one(on_cpu, "relu", "bound", "range(1, out.size)")
    operator = built(mutant, ("relu", "numba"), tmp_path)
    right = ops.operators()["relu"]
    assert {name: sys.modules.get(name) for name in before} == before
    assert ops.relu is sys.modules["suites.ops.relu"]
    assert operator.name == right.name
    assert (operator.reference.given, operator.truth.given) == (right.reference.given, right.truth.given)
    assert list(operator.kernels) == [Backend.NUMBA] == list(operator.tested)
    assert "range(1, out.size)" in inspect.getsource(operator.kernel(Backend.NUMBA).dispatcher.py_func)
    assert operator.kernel(Backend.NUMBA) is not right.kernel(Backend.NUMBA)


def test_a_fault_in_a_helper_reaches_the_operators_that_call_it(on_cpu, tmp_path):
    right = numba_cpu.block_sum
    mutant = one(on_cpu, "numba_cpu_blocks", "arithmetic", "total -= x[i]")
    assert ("block_sum", "numba") in mutant.targets
    dispatcher = built(mutant, ("block_sum", "numba"), tmp_path).kernel(Backend.NUMBA).dispatcher
    helper = dispatcher.py_func.__globals__["sum_of"]
    assert "total -= x[i]" in inspect.getsource(helper.py_func)
    assert numba_cpu.block_sum is right
    assert "total += x[i]" in inspect.getsource(right.py_func)


def test_a_fault_in_a_helper_reaches_the_helpers_that_import_it(on_cpu, tmp_path):
    right = ops.operators()["softmax"]
    assert same_results(right, right, Backend.NUMBA, "cpu")  # the right helpers are compiled now
    mutant = one(on_cpu, "numba_cpu_math", "arithmetic", "value * rest - coefficient")
    assert ("softmax", "numba") in mutant.targets
    faulty = built(mutant, ("softmax", "numba"), tmp_path)
    assert "other bits for" in same_results(right, faulty, Backend.NUMBA, "cpu")


def test_a_fault_in_a_warp_kernel(on_cpu, tmp_path):
    mutant = one(on_cpu, "leaky_relu", "compare", "x[i] < element(0)")
    kernel = built(mutant, ("leaky_relu", "warp"), tmp_path).kernel(Backend.WARP).kernel("float32")
    assert "x[i] < element(0)" in kernel.adj.source


@pytest.mark.skipif(bool(NO_CUDA_CORE), reason=str(NO_CUDA_CORE))
def test_a_fault_in_the_text_of_a_kernel_in_cpp(on_cuda, tmp_path):
    mutant = next(mutant for mutant in on_cuda if mutant.in_text and mutant.fault.kind == "compare")
    operator = built(mutant, mutant.targets[0], tmp_path)
    assert operator.kernel(Backend.CUDA_RAW).source == mutant.fault.applied(mutant.source)


def compared(mutant, target, dtype, folder):
    right, faulty = ops.operators()[target[0]], built(mutant, target, folder)
    backend = next(backend for backend in Backend if backend.id == target[1])
    return code_of(faulty, backend, "cpu", dtype).equals(code_of(right, backend, "cpu", dtype))


def test_equal_code_shows_that_a_change_is_no_fault(on_cpu, tmp_path):
    narrow = one(on_cpu, "leaky_relu", "narrow", "np.float32(SLOPE)")
    assert compared(narrow, ("leaky_relu", "numba"), "float32", tmp_path)
    assert not compared(narrow, ("leaky_relu", "numba"), "float64", tmp_path)


def test_equal_bits_are_counted_and_other_bits_are_named(on_cpu, tmp_path, monkeypatch):
    right = ops.operators()["relu"]
    monkeypatch.setattr("suites.mutation.same_results.COMPARED_SIZES", (1, 8, 100))
    dtypes = runnable(right, Backend.NUMBA, "cpu")
    edges = sum(len(right.edges(dtype)) for dtype in dtypes)
    assert same_results(right, right, Backend.NUMBA, "cpu") == edges + 3 * len(dtypes)
    mutant = one(on_cpu, "relu", "bound", "range(1, out.size)")
    faulty = built(mutant, ("relu", "numba"), tmp_path)
    assert "other bits for" in same_results(right, faulty, Backend.NUMBA, "cpu")


def test_every_review_is_about_a_mutant_and_says_why(on_cpu, on_cuda):
    facts = {
        (mutant.module.rpartition(".")[2], mutant.fault.kind, mutant.fault.before, mutant.fault.after)
        for mutant in (*on_cpu, *on_cuda)
    }
    for review in REVIEWED:
        assert len(review.why) > 20
        assert any(review.covers(*each) for each in facts), review


def test_only_reviewed_mutants_are_excused():
    size, parts = "out.size < ONE_THREAD_BELOW", "parts < 2"
    assert why_no_fault("relu", "compare", size, "out.size <= ONE_THREAD_BELOW") is not None
    assert why_no_fault("relu", "guard", f"{size} or {parts}", "True") is not None
    assert why_no_fault("relu", "compare", "i < ONE_THREAD_BELOW", "i <= ONE_THREAD_BELOW") is None
    assert why_no_fault("relu", "bound", "range(x.size)", "range(1, x.size)") is None
    assert why_no_fault("cumsum", "arithmetic", "i + 3 * QUARTER", "i - 3 * QUARTER") is None
