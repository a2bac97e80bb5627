"""Calls of kernels through their makers' own functions: what lowers without a GPU, and the reasons for the rest."""

import contextlib

import jax
import numpy as np
import pytest

from suites import ops
from suites.backends import BACKENDS
from suites.vendors import calls as vendor_calls
from suites.vendors.shipped import ShippedKernel

CHIP = {
    "jax_triton.triton_lib.triton_kernel_call_lib.get_compute_capability": 90,
    "cuda.tile._compile.get_sm_arch": "sm_90",
}
"""The functions by which calls ask for the chip, and what they get where there is none."""

CASES = [
    (operator, backend, str(np.dtype(dtype)))
    for operator in ops.operators().values()
    for backend in (BACKENDS[name] for name in ("jax_triton", "cutlass", "cutile", "jax_tvm_ffi", "mosaic_gpu"))
    if backend in operator.kernels and not isinstance(operator.kernels[backend], ShippedKernel)
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
