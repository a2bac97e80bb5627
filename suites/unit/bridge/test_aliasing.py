"""Inputs of aliased outputs that lie elsewhere, tested on the CPU with a stand-in for cuMemcpyDtoDAsync."""

import ctypes

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import ShapeDtypeStruct as Spec

from bridge import numba_kernel
from bridge.ffi.native.addresses import c_function, c_string
from bridge.ffi.plans import aliasing, device
from bridge.ffi.target import CPU

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@numba.njit
def increment(x, out):
    for i in range(out.size):
        out[i] += 1


class Copier:
    """A target on the CPU that copies aliased inputs by a recorded function, which answers with ``status``."""

    def __init__(self):
        self.copied, self.status = [], 0
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)
        self._copy = kind(self._record)
        self._describe = device.DESCRIBE(lambda status, name: c_string(f"{ctypes.string_at(name).decode()}: {status}"))
        addresses = c_function(self._copy), c_function(self._describe)
        self.target = CPU.variant("_test_copy", lambda inner: aliasing.copy_before(inner, *addresses, on_stream=False))
        self.target.install()

    def _record(self, target, source, size, stream):
        self.copied.append((size, stream))
        ctypes.memmove(target, source, size)
        return self.status

    def run(self, x, shares, status=0):
        """Adds one to each row of x, in memory that XLA makes the output share with x or not."""
        self.copied.clear()
        self.status = status
        row = Spec(x.shape[1:], x.dtype)
        closed = jax.make_jaxpr(numba_kernel(increment, row, input_output_aliases={0: 0}))(
            jnp.zeros(row.shape, row.dtype)
        )
        call = closed.eqns[0].params["jaxpr"].eqns[0].params["call"]
        key = np.int64(call.code.entry("cpu").key)
        out = Spec(x.shape, x.dtype)
        function = jax.ffi.ffi_call(self.target.name, out, input_output_aliases={0: 0} if shares else {})
        pairs = aliasing.pairs(call.aliases, [out])
        return np.asarray(jax.jit(lambda x: function(x, key=key, aliases=pairs))(x))


@pytest.fixture(scope="module")
def copier():
    return Copier()


def test_an_input_that_lies_elsewhere_is_copied_on_the_stream_before_the_kernel_runs(copier):
    np.testing.assert_array_equal(copier.run(X, shares=False), X + 1)
    assert copier.copied == [(X.nbytes, None)]


def test_an_input_that_lies_there_already_is_not_copied(copier):
    np.testing.assert_array_equal(copier.run(X, shares=True), X + 1)
    assert copier.copied == []


def test_what_has_no_elements_is_not_copied(copier):
    assert copier.run(X[:0], shares=False).shape == (0, 3)
    assert copier.copied == []


def test_a_refused_copy_is_an_error(copier):
    with pytest.raises(jax.errors.JaxRuntimeError, match="the copy of an aliased input: 7"):
        copier.run(X, shares=False, status=7)


def test_each_pair_has_the_size_of_its_element():
    outputs = [Spec((2,), np.float64), Spec((3,), np.int8), Spec((4,), jnp.bfloat16)]
    assert aliasing.pairs([(0, 2), (4, 0)], outputs).tolist() == [0, 2, 2, 4, 0, 8]
