"""Lists the paths on the CPU: a 16-element add, through each way to call host code."""

from __future__ import annotations

import ctypes

import jax
import jax.ffi
import jax.numpy as jnp
import numba
import numpy as np

from bridge import XLACustomKernel, numba_kernel
from suites.dispatch import native
from suites.dispatch.modes import EAGER, JIT, LOOP
from suites.dispatch.path import CallPath, custom_call, elementwise_add
from suites.dispatch.platforms import Limit, PathSpec, Platform

SIZE = 16
_OUT = jax.ShapeDtypeStruct((SIZE,), jnp.float32)
_CPP_TARGET = "dispatch_add_cpp_cpu"


@numba.njit
def _add(x, y, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = x[i] + y[i]


def _numba() -> CallPath:
    wrapped = numba_kernel(_add, _OUT)
    return CallPath(wrapped, wrapped, custom_call("bridge_.*"))


def _operator() -> CallPath:
    op = XLACustomKernel("add", outs=lambda x, y: jax.ShapeDtypeStruct(x.shape, x.dtype))
    op.def_numba_kernel(lambda outs: numba_kernel(_add, outs[0]))
    return CallPath(op, op, custom_call("bridge_cpu"))


def _cpp() -> CallPath:
    library = ctypes.CDLL(str(native.build_cpu()))
    native.register(library, "Add", _CPP_TARGET, "cpu")

    def call(x: jax.Array, y: jax.Array) -> jax.Array:  # written like the wrappers in JAX's documentation of the FFI
        return jax.ffi.ffi_call(_CPP_TARGET, _OUT)(x, y)

    return CallPath(call, call, custom_call(_CPP_TARGET))


def _warp_native() -> CallPath:
    from suites.dispatch.warp_add import bridge_add

    wrapped = bridge_add()
    return CallPath(wrapped, wrapped, custom_call("bridge_cpu"))


def _warp() -> CallPath:
    from suites.dispatch.warp_add import warp_add

    wrapped = warp_add()
    return CallPath(wrapped, wrapped, custom_call("add.*"))


def _callback() -> CallPath:
    def call(x: jax.Array, y: jax.Array) -> jax.Array:
        out: jax.Array = jax.pure_callback(np.add, _OUT, x, y)
        return out

    return CallPath(call, call, custom_call("xla_ffi_.*callback"))


def _jnp() -> CallPath:
    return CallPath(jnp.add, jax.jit(lambda x, y: jnp.add(x, y)), elementwise_add(SIZE))


def _jnp_unjitted() -> CallPath:
    return CallPath(jnp.add, jnp.add, elementwise_add(SIZE))


CPU = Platform(
    name="cpu",
    size=SIZE,
    modes=(LOOP, JIT, EAGER),
    paths=(
        PathSpec("numba", "native handler, Numba (kernel-bridge)", _numba),
        PathSpec("operator", "the same as an XLACustomKernel", _operator),
        PathSpec("warp-native", "native handler, Warp (kernel-bridge)", _warp_native),
        PathSpec("cpp", "native handler, hand-written C++", _cpp),
        PathSpec("warp", "warp.jax_kernel", _warp),
        PathSpec("callback", "jax.pure_callback, NumPy", _callback),
        PathSpec("jnp", "jnp.add (eager: jitted by the user)", _jnp),
        PathSpec("jnp-unjitted", "jnp.add, called as it is", _jnp_unjitted, modes=(EAGER,)),
    ),
    required="numba",
    references={LOOP.name: "cpp", JIT.name: "jnp", EAGER.name: "jnp"},
    targets=(
        Limit(LOOP.name, "numba", "cpp", 1.0),
        Limit(EAGER.name, "numba", "jnp", 1.2),
        Limit(LOOP.name, "numba", "warp", 0.01),
        Limit(LOOP.name, "numba", "callback", 0.01),
        Limit(LOOP.name, "operator", "numba", 1.02),
        Limit(LOOP.name, "warp-native", "cpp", 1.2),
        Limit(EAGER.name, "warp-native", "jnp", 1.2),
        Limit(LOOP.name, "warp-native", "warp", 0.01),
    ),
)
