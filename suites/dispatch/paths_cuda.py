"""Lists the paths on a CUDA device: a 1024-element add, through each way to launch a kernel."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec

import jax
import jax.ffi
import jax.numpy as jnp

import bridge
from suites.dispatch import native
from suites.dispatch.modes import CHAIN, EAGER, JIT, LOOP
from suites.dispatch.path import CallPath, PathUnavailableError, custom_call, elementwise_add
from suites.dispatch.platforms import Limit, PathSpec, Platform

SIZE = 1024
_BLOCK = 256
_OUT = jax.ShapeDtypeStruct((SIZE,), jnp.float32)


def _numba_cuda() -> CallPath:
    _require_numba_cuda()
    from numba import cuda

    @cuda.jit
    def add(x, y, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    wrapped = bridge.numba_cuda_kernel(add, _OUT, grid=SIZE // _BLOCK, block=_BLOCK)
    return CallPath(wrapped, wrapped, custom_call("bridge_cuda"))


def _numba_cuda_callable(replay: bool) -> CallPath:
    """Returns a path of two kernels with a temporary array between them."""
    _require_numba_cuda()
    import numpy as np
    from numba import cuda

    @cuda.jit
    def add(x, y, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    @cuda.jit
    def copy(x, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i]

    def add_then_copy(x, y, out, stream):  # type: ignore[no-untyped-def]
        total = cuda.device_array(SIZE, dtype=np.float32)
        add[SIZE // _BLOCK, _BLOCK, stream](x, y, total)
        copy[SIZE // _BLOCK, _BLOCK, stream](total, out)

    wrapped = bridge.numba_cuda_callable(add_then_copy, _OUT, replay=replay)
    return CallPath(wrapped, wrapped, custom_call("bridge_cuda" if replay else "bridge_cuda_python"))


def _require_numba_cuda() -> None:
    if find_spec("numba_cuda") is None:
        raise PathUnavailableError("numba-cuda is not installed; install the extra cuda12 or cuda13")


@cache
def _library() -> ctypes.CDLL:
    capability = str(jax.devices("cuda")[0].compute_capability)
    return ctypes.CDLL(str(native.build_cuda(capability)))


def _cpp(symbol: str, target: str) -> CallPath:
    native.register(_library(), symbol, target, "CUDA")

    def call(x: jax.Array, y: jax.Array) -> jax.Array:  # written like the wrappers in JAX's documentation of the FFI
        return jax.ffi.ffi_call(target, _OUT)(x, y)

    return CallPath(call, call, custom_call(target))


def _warp_native() -> CallPath:
    from suites.dispatch.warp_add import bridge_add

    wrapped = bridge_add()
    return CallPath(wrapped, wrapped, custom_call("bridge_cuda"))


def _warp() -> CallPath:
    from suites.dispatch.warp_add import warp_add

    wrapped = warp_add()
    return CallPath(wrapped, wrapped, custom_call("add.*"))


def _jnp() -> CallPath:
    return CallPath(jnp.add, jax.jit(lambda x, y: jnp.add(x, y)), elementwise_add(SIZE))


CUDA = Platform(
    name="cuda",
    size=SIZE,
    modes=(JIT, LOOP, CHAIN, EAGER),
    paths=(
        PathSpec("numba-cuda", "native handler, Numba-CUDA (kernel-bridge)", _numba_cuda),
        PathSpec("numba-cuda-replay", "numba_cuda_callable, two kernels, replayed", lambda: _numba_cuda_callable(True)),
        PathSpec("numba-cuda-python", "numba_cuda_callable, two kernels, Python", lambda: _numba_cuda_callable(False)),
        PathSpec("warp-native", "native handler, Warp (kernel-bridge)", _warp_native),
        PathSpec("cpp", "native handler, CUDA C++, capturable", lambda: _cpp("Add", "dispatch_add_cpp_cuda")),
        PathSpec(
            "cpp-uncaptured",
            "native handler, CUDA C++, not capturable",
            lambda: _cpp("AddUncaptured", "dispatch_add_cpp_cuda_uncaptured"),
        ),
        PathSpec("warp", "warp.jax_kernel", _warp),
        PathSpec("jnp", "jnp.add (eager: jitted by the user)", _jnp),
    ),
    required="numba-cuda",
    references={JIT.name: "cpp", LOOP.name: "cpp", CHAIN.name: "cpp", EAGER.name: "jnp"},
    targets=(
        *(Limit(mode.name, "numba-cuda", "cpp", 1.05) for mode in (JIT, LOOP, CHAIN)),
        Limit(CHAIN.name, "numba-cuda-replay", "numba-cuda", 2.2),
        Limit(EAGER.name, "numba-cuda", "jnp", 1.2),
        *(Limit(mode.name, "warp-native", "cpp", 1.05) for mode in (JIT, LOOP, CHAIN)),
        Limit(EAGER.name, "warp-native", "jnp", 1.2),
    ),
)
