"""Launches that pass other parameters than their kernels take are refused: CUDA's driver says what they take."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from bridge import AbiError, LaunchError, SignatureError, cuda_raw_kernel
from bridge.cuda.launch_shape import LaunchShape, check_covers, check_limits, launch_shape
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import Limits
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


# Launch shapes: what the launch arguments mean, and which are refused.


@pytest.mark.parametrize(
    ("arguments", "grid", "block"),
    [
        ({"grid": 4, "block": 256}, (4, 1, 1), (256, 1, 1)),
        ({"grid": [1, np.int64(2), 3], "block": np.int64(32)}, (1, 2, 3), (32, 1, 1)),
        ({"launch_dims": (64, 65)}, (4, 5, 1), (16, 16, 1)),
        ({"launch_dims": (9, 9, 9)}, (2, 2, 3), (8, 8, 4)),
        ({"launch_dims": 0}, (0, 1, 1), (256, 1, 1)),
        ({"launch_dims": (2**31 - 1) * 1024, "threads_per_block": 1024}, (2**31 - 1, 1, 1), (1024, 1, 1)),
    ],
)
def test_arguments_become_a_grid_and_a_block(arguments, grid, block):
    assert launch_shape("k", **arguments) == LaunchShape(grid, block, 0)


@pytest.mark.parametrize(
    ("shape", "static", "message"),
    [
        (LaunchShape((1, 1, 1), (1025, 1, 1)), 0, "a block of 1025x1x1 is 1025 threads, but .* at most 1024"),
        (LaunchShape((1, 1, 1), (1, 1, 65)), 0, "the block 1x1x65 has 65 in z, but the device allows 64"),
        (LaunchShape((1, 65536, 1), (1, 1, 1)), 0, "1x65536x1 has 65536 in y.*Put the largest dimension first"),
        (LaunchShape((1, 1, 1), (1, 1, 1), 49152), 1, "49152 bytes of dynamic and 1 of static shared memory"),
    ],
)
def test_limits_of_the_device(shape, static, message):
    with pytest.raises(LaunchError, match=message):
        check_limits("k", shape, Limits(), static)


def test_a_grid_of_nothing_is_refused_unless_there_is_nothing_to_write():
    nothing = launch_shape("k", launch_dims=(0, 5))
    with pytest.raises(LaunchError, match=r"the grid 0x1x1 launches nothing, so the outputs would not be written"):
        check_covers("k", nothing, [jax.ShapeDtypeStruct((0,), np.float32), jax.ShapeDtypeStruct((3,), np.float32)])
    check_covers("k", nothing, [jax.ShapeDtypeStruct((0, 3), np.float32)])
