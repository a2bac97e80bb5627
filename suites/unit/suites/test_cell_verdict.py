"""Deliberately broken kernels: each must be caught, with the status that says what is wrong with it."""

import contextlib
import gc
import weakref

import jax
import numba
import numpy as np
import pytest

from bridge import numba_kernel
from reports import Status
from suites import Operator
from suites.backends import BACKENDS
from suites.cells.case import Case
from suites.checks.judging import call_loops, cell_verdict, memory
from suites.checks.judging.cell_verdict import judge_kernel, missing_custom_call
from suites.checks.judging.evidence import CheckFailed
from suites.guards import page_faults
from suites.guards.guarded_calls import Guards
from suites.mutants.memory import address_of_zeros, array_at
from suites.numerics.error_model import exact
from suites.unit.bridge.kernels import copy
from suites.validate import memory_limit


@numba.njit
def copy_without_tail(x, out):
    out[: x.size - 1] = x[: x.size - 1]


@numba.njit
def copy_off_by_one(x, out):
    for i in range(x.size):
        out[i] = x[i - 1]


@numba.njit
def copy_into_input(x, out):
    out[:] = x
    x[0] = 1


@numba.njit
def copy_plus_old_output(x, out):
    for i in range(x.size):
        out[i] = x[i] if i else out[i] * 0.5 + x[i]


@numba.njit
def copy_and_one_more(x, out):
    for i in range(x.size + 1):
        out[i] = x[i]


@numba.njit
def copy_or_raise(x, out):
    if x.size > 3:
        raise ValueError("too long")
    out[:] = x


def _operator(kernel):
    return Operator(name="copy", reference=lambda x: x + 0, truth=exact, kernels={"numba": kernel}, dtypes=("float32",))


INPUTS = (np.arange(1, 9, dtype=np.float32),)


@pytest.mark.parametrize(
    ("kernel", "status", "reason"),
    [
        (copy, Status.PASSED, None),
        (copy_without_tail, Status.UNWRITTEN_OUTPUT, "1 of 8 elements were never written"),
        (copy_off_by_one, Status.WRONG_VALUE, "outside the error bound"),
        (copy_into_input, Status.COMPILE_ERROR, "Inputs are read-only, because"),
        (copy_plus_old_output, Status.NONDETERMINISTIC, "differs between two runs"),
        (copy_or_raise, Status.RUNTIME_ERROR, "ValueError: too long"),
        (copy_and_one_more, Status.OUT_OF_BOUNDS, "element 8 of input 0, past its end"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_way_of_being_wrong_has_its_status(kernel, status, reason):
    verdict = judge_kernel(_operator(kernel), BACKENDS["numba"], INPUTS)
    assert verdict.status is status
    assert reason is None or reason in verdict.reason


CALLS, WRONG_CALL = address_of_zeros(1, np.int64), address_of_zeros(1, np.int64)


@numba.njit
def copy_but_for_one_call(x, out):
    calls = array_at(CALLS, 1, np.int64)
    calls[0] += 1
    out[:] = x
    if calls[0] == array_at(WRONG_CALL, 1, np.int64)[0]:
        out[0] += 1


@pytest.mark.parametrize(
    ("further", "wrong_call", "status"),
    [(0, 2, Status.PASSED), (4, 5, Status.PASSED), (4, 4, Status.NONDETERMINISTIC), (1, 1, Status.NONDETERMINISTIC)],
)
def test_a_fault_in_one_of_the_further_runs_is_seen(monkeypatch, further, wrong_call, status):
    """As races on a GPU are; the faulty run is counted from the first of the further runs."""
    calls, wrong = array_at(CALLS, 1, np.int64), array_at(WRONG_CALL, 1, np.int64)
    monkeypatch.setitem(cell_verdict.REPETITIONS, "cpu", 0)
    calls[0] = wrong[0] = 0
    assert judge_kernel(_operator(copy_but_for_one_call), BACKENDS["numba"], INPUTS).status is Status.PASSED
    monkeypatch.setitem(cell_verdict.REPETITIONS, "cpu", further)
    wrong[0] = calls[0] + wrong_call
    calls[0] = 0
    assert judge_kernel(_operator(copy_but_for_one_call), BACKENDS["numba"], INPUTS).status is status


def test_program_without_the_custom_call_is_no_evidence():
    program = jax.jit(lambda x: x + 1).lower(INPUTS[0]).compile().as_text()
    assert missing_custom_call(program, BACKENDS["jnp"], "cpu") is None
    assert "contains 0 calls of bridge_cpu, expected 1" in missing_custom_call(program, BACKENDS["numba"], "cpu")


GUARDED = pytest.mark.skipif(page_faults.MISSING is not None, reason=str(page_faults.MISSING))


@GUARDED
def test_a_kernel_whose_calls_go_past_the_guards_is_unchecked(monkeypatch):
    @contextlib.contextmanager
    def blind(run):
        yield Guards(0, 0)

    monkeypatch.setattr(memory, "guarded_calls", blind)
    assert judge_kernel(_operator(copy), BACKENDS["numba"], INPUTS).status is Status.UNCHECKED


@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_an_output_of_another_shape_is_refused_before_the_kernel_writes_past_its_end():
    half = numba_kernel(copy, lambda x: jax.ShapeDtypeStruct((x.size // 2,), x.dtype))
    operator = Operator(name="half", reference=lambda x: x, kernels={"numba": half}, dtypes=("float32",))
    verdict = judge_kernel(operator, BACKENDS["numba"], (np.ones(8, np.float32),))
    assert (verdict.status, verdict.reason) == (Status.WRONG_SHAPE, "output 0 has shape (4,), expected (8,)")
    case = Case(operator, BACKENDS["numba"], "float32", 8, "cpu")
    with pytest.raises(CheckFailed, match=r"WRONG_SHAPE: output 0 has shape \(4,\)"):
        call_loops.prepare(case, case.samples(2), case.device)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "complex64"])
def test_other_contents_lie_at_the_same_addresses(dtype):
    random = np.random.default_rng(0)
    first, second = ((random.integers(0, 2, 1001).astype(dtype), random.integers(0, 9, (3, 5), np.int32)) for _ in "ab")
    with jax.enable_x64(True):
        refilled = memory.RefilledMemory(first, jax.devices("cpu")[0])
        addresses = []
        for inputs in (first, second, first):
            placed = refilled.fill(inputs)
            addresses.append([array.unsafe_buffer_pointer() for array in placed])
            assert all(np.array_equal(array, own) for array, own in zip(placed, inputs, strict=True))
    assert addresses[0] == addresses[1] == addresses[2]


# A process that checks many operators keeps the memory of one.


@pytest.mark.parametrize(("most", "is_kept"), [(0, False), (1 << 60, True)])
def test_a_process_that_keeps_too_much_forgets_what_it_has_checked(monkeypatch, most, is_kept):
    monkeypatch.setattr(memory_limit, "LIMIT_BYTES", most)
    operator = _operator(copy)
    assert judge_kernel(operator, BACKENDS["numba"], INPUTS, jax.devices("cpu")[0]).status is Status.PASSED
    kept = weakref.ref(operator)
    del operator
    memory_limit.free_memory()
    gc.collect()
    assert (kept() is not None) == is_kept
