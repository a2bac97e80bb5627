"""has_side_effect: a kernel that prints or counts runs although nothing uses its results, in every language."""

import ctypes
import re

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge

X = jnp.arange(1.0, 5.0)
CALLS, TICKS = [], np.zeros(1, np.int32)
COUNT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(lambda out, size: CALLS.append(size))


@numba.njit
def numba_count(x, out):
    COUNT(0, x.size)
    out[:] = 0


def numba_kernel(**options):
    return bridge.numba_kernel(numba_count, lambda x: x, **options)


def native_kernel(**options):
    return bridge.native_kernel(COUNT, lambda x: x, lambda x, out: (out, x.size), **options)


def tvm_ffi_kernel(**options):
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
    count = tvm_ffi.convert(lambda out: CALLS.append(out.shape))
    return bridge.tvm_ffi_kernel(count, lambda x: x, lambda x, out: (out,), **options)


def jax_kernel(**options):
    """Its kernel counts in memory that belongs to no array."""
    kernels = pytest.importorskip("suites.unit.bridge.warp_kernels", reason="Warp is not installed")
    call = bridge.jax_kernel(kernels.tick, launch_dims=1, output_dims=4, **options)
    return lambda x: call(TICKS.ctypes.data, x)[0]


def operator(**options):
    made = bridge.XLACustomKernel("counts", outs=lambda x: x, **options)
    made.def_numba_kernel(lambda outs: numba_kernel(**options))
    return made


def count(call, transform):
    """How many calls run where nothing uses their results."""
    CALLS.clear()
    TICKS[0] = 0
    result = transform(lambda x: (call(x), x + 1)[1])(X)
    jax.block_until_ready(result)
    jax.effects_barrier()
    return len(CALLS) + int(TICKS[0])


TRANSFORMATIONS = {
    "jit": (jax.jit, 1),
    "vmap": (lambda f: jax.jit(lambda x: jax.vmap(f)(jnp.stack([x, x, x]))), 3),
    "scan": (lambda f: lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, length=3), 3),
}


@pytest.mark.parametrize("make", [numba_kernel, native_kernel, tvm_ffi_kernel, jax_kernel, operator])
def test_a_call_whose_results_nothing_uses_runs_if_it_has_a_side_effect(make):
    assert count(make(), jax.jit) == 0
    call = make(has_side_effect=True)
    for name, (transform, calls) in TRANSFORMATIONS.items():
        assert count(call, transform) == calls, name


def triton_kernel(**options):
    pytest.importorskip("triton", reason="Triton is not installed")
    from suites.unit.bridge.copies_in_blocks import block_copy

    return bridge.triton_kernel(block_copy, lambda x: x, grid=1, n=4, BLOCK=4, **options)


def numba_cuda_kernel(**options):
    from suites.unit.bridge.cuda_examples import square

    return bridge.numba_cuda_kernel(square, lambda x: x, launch_dims=4, **options)


@pytest.mark.parametrize("make", [triton_kernel, numba_cuda_kernel])
def test_a_program_for_a_gpu_has_the_unused_call_of_a_side_effect(make, no_gpu):
    from suites.unit.bridge.without_gpu import compiling

    def calls(call):
        program = jax.jit(lambda x: (call(x), x + 1)[1])
        exported = jax.export.export(program, platforms=["cuda"], disabled_checks=bridge.export_checks())(X)
        return re.findall(r"custom_call @bridge_cuda.*has_side_effect = (\w+)", exported.mlir_module())

    with compiling():
        assert calls(make()) == []
        assert calls(make(has_side_effect=True)) == ["true"]
