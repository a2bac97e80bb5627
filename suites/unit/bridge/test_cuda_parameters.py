"""Launches that pass other parameters than their kernels take are refused: CUDA's driver says what they take."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from bridge import AbiError, SignatureError, cuda_raw_kernel
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.parameters import check_parameters
from bridge.ffi.plans.device import DevicePlan, Launch
from bridge.ffi.target import CUDA
from bridge.kernel.language import Compiled
from bridge.languages import cuda_raw_kernel as cuda_cpp
from suites.unit.bridge.entries import call_in

LAUNCH = Launch("k", (0, 7), (1, 1, 1), (1, 1, 1), 0, (0, 0, 3), (0, 8, 16), (), sizes=(8, 8, 4), compiler="numba")


@pytest.fixture
def takes(monkeypatch):
    """What the driver says of a kernel: bytes of each parameter; nothing if it is older than CUDA 12.4."""
    sizes = [8, 8, 4]

    def about(function, index, offset, size):
        size._obj.value = sizes[index.value] if index.value < len(sizes) else 0
        return 0 if index.value < len(sizes) else 1

    monkeypatch.setattr(driver, "library", lambda: SimpleNamespace(**{"cuFuncGetParamInfo": about} if sizes else {}))
    monkeypatch.setattr(driver, "current", lambda ordinal: contextlib.nullcontext())
    return sizes


@pytest.mark.parametrize(
    ("sizes", "what"),
    [([8, 8, 8], "2 takes 8 bytes, .* 4"), ([8, 8], "2 takes 0 .* 4"), ([8, 8, 4, 8], "3 takes 8 .* 0")],
)
def test_another_layout_than_the_bridge_knows_is_refused(takes, sizes, what):
    check_parameters([LAUNCH])
    takes[:] = sizes
    with pytest.raises(
        AbiError, match=rf"^k: parameter {what} there: numba \d+\.\d+.* in a way that kernel-bridge does"
    ):
        check_parameters([LAUNCH, LAUNCH])
    with pytest.raises(SignatureError, match=r"^k: parameter .* Pass a pointer for each array, and scalars of the"):
        check_parameters([replace(LAUNCH, compiler="")])
    takes.clear()
    check_parameters([LAUNCH])


def test_each_plan_is_checked_when_it_is_loaded(takes, monkeypatch):
    pytest.importorskip("cuda.core", reason="cuda-core is not installed")
    plan = DevicePlan([LAUNCH])
    monkeypatch.setattr(type(cuda_cpp.LANGUAGE), "compile", lambda *_: Compiled("code", lambda: plan))
    monkeypatch.setattr(CUDA, "install", lambda: 0)
    takes[:] = [8, 8, 16]
    spec = jax.ShapeDtypeStruct((3,), np.float32)
    with pytest.raises(AbiError, match="parameter 2 takes 16 bytes"):
        call_in(cuda_raw_kernel("source", "f", spec, grid=1, block=1), spec).entry("cuda")
