"""Calls of kernels through their makers' own functions: what lowers without a GPU, and the reasons for the rest."""

import contextlib
import sys

import jax
import numpy as np
import pytest

from suites import ops
from suites.backends import BACKENDS
from suites.cells.tables import EXPORTED_KERNELS, batches, tangents
from suites.vendors import calls as vendor_calls

VENDORS = ("jax_triton", "cutlass", "cutile", "jax_tvm_ffi", "mosaic_gpu")
CHIP = {
    "jax_triton.triton_lib.triton_kernel_call_lib.get_compute_capability": 90,
    "cuda.tile._compile.get_sm_arch": "sm_90",
}
"""The functions by which calls ask for the chip, and what they get where there is none."""

CASES = [
    (operator, backend, str(np.dtype(dtype)))
    for operator in ops.operators().values()
    for backend in (BACKENDS[name] for name in VENDORS)
    if backend in operator.kernels
    for dtype in operator.dtypes
]


def reason_or_none(backend):
    why = backend.missing()
    assert why is None or "\n" not in why
    return why


@pytest.fixture
def chip(monkeypatch):
    for function, answer in CHIP.items() if jax.default_backend() == "cpu" else ():
        with contextlib.suppress(ImportError, AttributeError, OSError):
            monkeypatch.setattr(function, lambda *arguments, answer=answer: answer)
    vendor_calls.why_missing.cache_clear()
    yield
    vendor_calls.why_missing.cache_clear()


@pytest.mark.usefixtures("chip")
@pytest.mark.parametrize(("operator", "backend", "dtype"), CASES, ids=lambda each: str(getattr(each, "name", each)))
def test_a_kernel_lowers_in_each_dtype_with_and_without_a_part_of_a_block(operator, backend, dtype):
    if why := reason_or_none(backend):
        pytest.skip(why)
    for size in (1000, 4096) if backend is BACKENDS["jax_triton"] else (0, 1000, 4096):  # launches for no elements vary
        with jax.enable_x64(dtype.endswith("64")):
            sample = operator.sample(dtype, size, 0)
            inputs = [jax.ShapeDtypeStruct(each.shape if size else (0,), each.dtype) for each in sample]
            call = backend.build(operator.kernels[backend], operator.outputs(*inputs), inputs)
            text = jax.jit(call).trace(*inputs).lower(lowering_platforms=("cuda",)).as_text()
        assert ("custom_call" in text) == (size > 0)


@pytest.mark.parametrize("name", VENDORS)
def test_what_cannot_run_is_a_reason_in_one_line(name, monkeypatch):
    module = vendor_calls._MODULES.get(name, name)
    vendor_calls.why_missing.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    assert vendor_calls.why_missing(name).startswith(f"{module} does not import (ModuleNotFoundError: ")
    vendor_calls.why_missing.cache_clear()

    def fails(inputs, outs):
        raise RuntimeError("not with this JAX\nsecond line")

    monkeypatch.setitem(sys.modules, module, np)
    monkeypatch.setitem(vendor_calls.ADDS, name, vendor_calls.VendorCall(fails))
    why = vendor_calls.why_missing(name)
    assert why == f"{module} does not lower with JAX {jax.__version__} here (RuntimeError: not with this JAX)"
    vendor_calls.why_missing.cache_clear()


@pytest.mark.parametrize("name", ["jax_triton", "cutlass", "cutile"])
def test_batches_and_derivatives_are_skipped_cells(name):
    backend = BACKENDS[name]
    for table in (batches, tangents):
        cells = [cell for cell in table("cuda") if cell.values[0].backend is backend]
        assert cells
        assert all(cell.marks and cell.marks[0].name == "skip" for cell in cells)
    assert "has no rule for batches" in backend.no_batches


def test_a_function_of_this_process_is_not_exported():
    (cell,) = (cell for cell in EXPORTED_KERNELS.cells("cuda") if cell.values[0].backend is BACKENDS["tvm_ffi"])
    assert cell.marks[0].name == "skip"
    assert not any(cell.values[0].backend.no_export for cell in EXPORTED_KERNELS.cells("cpu"))


def test_a_call_is_batched_by_nobody_where_it_says_so():
    if why := reason_or_none(BACKENDS["cutlass"]):
        pytest.skip(why)
    vector = jax.ShapeDtypeStruct((8,), np.float32)
    call = BACKENDS["cutlass"].build(vendor_calls.ADDS["cutlass"], [vector], [vector, vector])
    with pytest.raises(NotImplementedError):
        jax.eval_shape(jax.vmap(call), *[jax.ShapeDtypeStruct((3, 8), np.float32)] * 2)
