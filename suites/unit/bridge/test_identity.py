"""A kernel never runs in the place of another one, and an unchanged kernel keeps its key in every process."""

import ctypes
import functools
import re

import jax
import numba
import numpy as np
import pytest
from llvmlite import binding
from numba.extending import overload

from bridge import numba_kernel
from suites.unit.processes import output, run

Spec = jax.ShapeDtypeStruct
X = np.arange(1, 5, dtype=np.float32)


def with_array(value):
    table = np.array([0, value])

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] * table[1]

    return kernel


def with_helper(decorate, value):
    @decorate
    def helper(v):
        return v * value

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = helper(x[i])

    return kernel


def overloaded(function):
    def helper(v):
        pass

    overload(helper)(lambda v: function)
    return helper


def with_exception(value):
    message = str(value)

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            if x[i] < 0:
                raise ValueError(message)
            out[i] = x[i] * value

    return kernel


KINDS = {
    "array": with_array,
    "helper": functools.partial(with_helper, numba.njit),
    "cfunc": functools.partial(with_helper, numba.cfunc("f4(f4)")),
    "overload": functools.partial(with_helper, overloaded),
    "exception": with_exception,
}
"""Makes kernels that multiply by a value, by the way in which they depend on it. The code of a cfunc has addresses."""


def key_of(call, x=X):
    """The key by which programs name a kernel."""
    found = re.search(r"\bkey = (-?\d+)", jax.jit(call).lower(x).as_text())
    assert found is not None
    return found[1]


def wrapped(kind, value):
    return numba_kernel(KINDS[kind](value), Spec(X.shape, X.dtype))


def is_local(call):
    return "local-" in jax.jit(call).lower(X).as_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_dependency_changes_result_and_key(kind):
    keys = []
    for value in (2, 3, 2):
        call = wrapped(kind, value)
        np.testing.assert_array_equal(call(X), value * X)
        keys.append(key_of(call))
    assert keys[0] != keys[1]
    assert keys[0] == keys[2] or is_local(call)


SCALE = 2.0


def test_a_recompiled_kernel_is_noticed(monkeypatch):
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] * SCALE

    call = numba_kernel(kernel, Spec(X.shape, X.dtype))
    np.testing.assert_array_equal(call(X), 2 * X)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    kernel.recompile()
    np.testing.assert_array_equal(numba_kernel(kernel, Spec(X.shape, X.dtype))(X), 3 * X)
    jax.clear_caches()
    np.testing.assert_array_equal(call(X), 3 * X)  # traced anew


ADDED = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


def external(name):
    function = numba.types.ExternalFunction(name, numba.float64(numba.float64))

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    return numba_kernel(kernel, Spec(X.shape, X.dtype))


def test_a_kernel_that_calls_a_c_function_of_the_user_is_local_and_calls_the_one_that_is_loaded():
    double, triple = ADDED(lambda value: 2 * value), ADDED(lambda value: 3 * value)
    for function, factor in ((double, 2), (triple, 3)):
        binding.add_symbol("kernel_bridge_test_function", ctypes.cast(function, ctypes.c_void_p).value)
        call = external("kernel_bridge_test_function")
        np.testing.assert_array_equal(call(X), factor * X)
        assert is_local(call)
    assert not is_local(external("cbrt"))  # of the C library


def test_a_kernel_that_calls_a_function_that_is_nowhere_is_refused():
    program = "from suites.unit.bridge.test_identity import X, external; external('kernel_bridge_nowhere')(X)"
    result = run("-c", program)  # Numba's engine refuses all further work
    assert "kernel calls the function 'kernel_bridge_nowhere', which is not loaded" in result.stderr


KEYS = """
import random, sys
from suites.unit.bridge.test_identity import KINDS, is_local, key_of, wrapped
kinds = sorted(KINDS)
random.Random(int(sys.argv[1])).shuffle(kinds)
for kind in kinds:
    call = wrapped(kind, 2)
    print(kind, "local" if is_local(call) else key_of(call), sep=": ")
"""
"""Prints the key of a kernel of each kind, in an order that depends on a seed."""


def test_unchanged_kernels_keep_their_keys_in_other_processes(tmp_path):
    (tmp_path / "keys.py").write_text(KEYS)
    first, second = (
        dict(line.split(": ") for line in output(tmp_path / "keys.py", seed, PYTHONHASHSEED=seed).splitlines())
        for seed in ("1", "2")
    )
    assert first == second
    local = {kind for kind, key in first.items() if key == "local"}
    assert local <= {"cfunc"}
