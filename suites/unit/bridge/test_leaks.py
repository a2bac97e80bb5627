"""A million calls and a hundred kernels, on the CPU or (numba_cuda, warp) on a GPU, leave no memory behind."""

import gc
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge
from suites.cells.grid import missing_device

SIZE = 1024
SETTLES_BYTES, A_KERNEL_BYTES = 4 << 20, 400_000
"""Growth that is no leak: arenas of libraries settle, and the machine code of a kernel stays loaded."""

LANGUAGES = [("numba", "cpu"), ("numba_parallel", "cpu"), ("warp", "cpu"), ("numba_cuda", "cuda"), ("warp", "cuda")]


@pytest.fixture(params=LANGUAGES, ids="-".join)
def adder(request):
    """Makes new kernels that add a number, on a device."""
    language, platform = request.param
    if reason := missing_device(platform):
        pytest.skip(reason)
    with jax.default_device(jax.devices(platform)[0]):
        adders = {"numba": numba_adder, "numba_parallel": parallel_adder, "numba_cuda": cuda_adder, "warp": warp_adder}
        yield adders[language]


def shifting(number, **options):
    @numba.njit(**options)
    def shift(x, out):
        for i in numba.prange(x.size):
            out[i] = x[i] + number

    return shift


def numba_adder(number, **options):
    return bridge.numba_kernel(shifting(number, **options), jax.ShapeDtypeStruct((SIZE,), jnp.float32))


def parallel_adder(number):
    return numba_adder(number, parallel=True)


def cuda_adder(number):
    from numba import cuda

    @cuda.jit
    def shift(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + number

    return bridge.numba_cuda_kernel(shift, jax.ShapeDtypeStruct((SIZE,), jnp.float32), grid=SIZE // 256, block=256)


def warp_adder(number):
    from suites.unit.bridge.warp_kernels import shifting_by

    wrapped = bridge.jax_kernel(shifting_by(number))
    return lambda x: wrapped(x)[0]


def growth(use, count):
    """The growth of resident memory after a quarter more uses, which fill caches and pools."""

    def resident():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for number in range(max(2, count // 4)):
        use(number)
    before = resident()
    for number in range(count):
        use(count + number)
    return resident() - before


def test_a_million_calls_in_a_loop_run_once_each_and_leave_nothing_behind(adder):
    add, each = adder(np.float32(1)), 10_000
    program = jax.jit(lambda x: jax.lax.fori_loop(0, each, lambda _, carry: add(carry), x))
    zeros = jnp.zeros(SIZE, jnp.float32)
    assert growth(lambda _: np.testing.assert_array_equal(program(zeros), each), 100) < SETTLES_BYTES


@pytest.mark.parametrize(
    "adder", [each for each in LANGUAGES if "numba_parallel" not in each], ids="-".join, indirect=True
)
def test_a_hundred_released_kernels_leave_no_more_behind_than_numba_itself(adder):
    def use(number):
        result = adder(np.float32(number))(jnp.zeros(SIZE, jnp.float32))
        np.testing.assert_array_equal(result, number)
        jax.clear_caches()
        bridge.release()

    zeros = np.zeros(SIZE, np.float32)
    of_numba = growth(lambda number: shifting(np.float32(number))(zeros, zeros), 100) if adder is numba_adder else 0
    assert growth(use, 100) - of_numba < 100 * A_KERNEL_BYTES
