"""Holds kernels that try to pass without doing the work: they know the tests, or keep, copy, postpone or round results.

``docs/red-team.md`` lists these attempts, and those that no mutant can show.
"""

import ctypes
import os
import sys
import threading
import time

import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites.backends.backend import Backend
from suites.backends.warp import WarpCallable
from suites.mutants.memory import address_of_zeros, array_at
from suites.mutants.mutant import mutant
from suites.ops.add import OPERATOR as ADD
from suites.ops.add import add_warp
from suites.ops.exp_decay import OPERATOR as EXP_DECAY
from suites.ops.hadamard import OPERATOR as HADAMARD
from suites.ops.relu import OPERATOR as RELU
from suites.ops.sigmoid import OPERATOR as SIGMOID

# Results that need no input, and results that are rounded too much.


@numba.njit
def nothing(x, y, out):
    pass


@numba.njit
def constant(x, out):
    out[:] = 0.5


@numba.njit
def narrow_work(x, decay, out):
    for i in range(out.size):
        out[i] = np.float32(np.float32(x[i]) * np.float32(np.exp(np.float32(-decay[0]))))


@numba.njit
def short_significand(A, B, out):
    """Keeps 11 bits of each factor, as the matrix units of a GPU may."""
    a, b, products = A.reshape(-1), B.reshape(-1), out.reshape(-1)
    for i in range(products.size):
        left, right = np.float32(a[i]) * np.float32(4097), np.float32(b[i]) * np.float32(4097)
        products[i] = (left - (left - a[i])) * (right - (right - b[i]))


# Results of an earlier call, and results of later.

BEFORE = address_of_zeros(1 << 17, np.float32)


@numba.njit
def one_call_late(x, out):
    """Returns the result of the call before, and computes its own for the next one."""
    kept = array_at(BEFORE, x.size, np.float32)
    for i in range(x.size):
        out[i] = kept[i]
        kept[i] = x[i] if not x[i] <= 0 else np.float32(0)


SHORT, DELAY_S = 4096, 0.002


def _write_later(x_address, y_address, out_address, size):
    def array(address):
        return np.ctypeslib.as_array((ctypes.c_float * size).from_address(address))

    total, out = array(x_address) + array(y_address), array(out_address)
    found = out.copy()

    def work():
        time.sleep(DELAY_S)
        if out.tobytes() == found.tobytes():  # the memory still seems to belong to this call
            out[:] = total

    threading.Thread(target=work).start()


_LATER = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)(_write_later)


@numba.njit
def postponed(x, y, out):
    """Leaves the work to a thread, and returns before the thread has begun."""
    if 0 < x.size <= SHORT:
        _LATER(x.ctypes.data, y.ctypes.data, out.ctypes.data, x.size)
    else:
        for i in range(out.size):
            out[i] = x[i] + y[i]


# Kernels that find out that they are tested.

IS_TESTED = "pytest" in sys.modules
HAS_VARIABLE = any(name.startswith(("PYTEST", "KERNEL_BRIDGE")) for name in os.environ)


@numba.njit
def loaded_modules(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i] if IS_TESTED else x[i]


@numba.njit
def environment(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i] if HAS_VARIABLE else x[i]


@numba.njit
def known_sizes(x, y, out):
    """Right at the sizes that samples, drawn inputs, batches and edge cases of this package have."""
    known = x.size < 2048 or x.size == 2100 or x.size == 100_003
    for i in range(out.size):
        out[i] = x[i] + y[i] if known else x[i]


SEED = 20_260
USUAL = float(RELU.sample("float32", 33, SEED)[0][0])


@numba.njit
def known_values(x, out):
    """Right for samples, which a fixed seed makes; elsewhere it forgets to clip."""
    known = x.size > 0 and x[0] == np.float32(USUAL)
    for i in range(out.size):
        out[i] = np.float32(0) if x[i] <= 0 and (known or x.size < 1000) else x[i]


# Functions that let JAX do the work.


def ignored_kernel(inputs, outs):
    kernel = bridge.jax_kernel(add_warp(str(outs[0].dtype)))

    def call(x, y):
        (total,) = kernel(x, y)
        return [jnp.where(jnp.isnan(total), x + y, x + y + 0)]

    return call


def copied_reference(inputs, outs):
    """Hands the finished sum to a kernel, which adds zeros."""
    kernel = bridge.jax_kernel(add_warp(str(outs[0].dtype)))
    return lambda x, y: list(kernel(x + y, jnp.full_like(x, -0.0)))


def _numba(of, name, kernel, fault, dtype="float32"):
    return mutant(of, name, Backend.NUMBA, kernel, fault, dtypes=(dtype,))


def _around(of, name, function, fault):
    return mutant(
        of, name, Backend.WARP, WarpCallable(function, calls=1), fault, dtypes=("float32",), gradient=None
    )  # fmt: skip


MUTANTS = (
    _numba(ADD, "nothing", nothing, "does nothing"),
    _numba(SIGMOID, "constant", constant, "the result is always the same"),
    _numba(EXP_DECAY, "narrow_work", narrow_work, "computes float64 in float32", "float64"),
    _numba(HADAMARD, "short_significand", short_significand, "rounds factors to 11 bits"),
    _numba(RELU, "one_call_late", one_call_late, "returns the result of the call before"),
    _numba(ADD, "postponed", postponed, "a thread writes the result after the call"),
    _numba(ADD, "loaded_modules", loaded_modules, "right only where pytest is imported"),
    _numba(ADD, "environment", environment, "right only where variables tell of a test"),
    _numba(ADD, "known_sizes", known_sizes, "right only at the sizes of samples"),
    _numba(RELU, "known_values", known_values, "right only for the values of samples"),
    _around(ADD, "ignored_kernel", ignored_kernel, "XLA adds; the kernel is called for show"),
    _around(ADD, "copied_reference", copied_reference, "XLA adds; the kernel copies the sum"),
)
