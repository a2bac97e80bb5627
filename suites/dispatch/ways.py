"""Lists the ways to call a kernel that adds two vectors from JAX, by platform."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge

SIZES = {"cpu": 16, "cuda": 1024}

Call = Callable[[jax.Array, jax.Array], jax.Array]


class Unavailable(Exception):
    """A way to call that is not installed here."""


@numba.njit
def _add(x, y, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = x[i] + y[i]


def _operator(out: Any) -> Call:
    operator = bridge.XLACustomKernel("add", outs=lambda x, y: jax.ShapeDtypeStruct(x.shape, x.dtype))
    operator.def_numba_kernel(lambda outs: bridge.numba_kernel(_add, outs[0]))
    return operator


def _numba_cuda(out: Any) -> Call:
    from suites.ops.add.numba_cuda import add_cuda

    return bridge.numba_cuda_kernel(add_cuda, out, grid=4, block=256)


def _warp(wrap: Callable[[Any], Any]) -> Call:
    from suites.ops.add.warp import add_warp

    wrapped = wrap(add_warp("float32"))
    return lambda x, y: wrapped(x, y)[0]


def _warp_itself(out: Any) -> Call:
    import warp

    if not hasattr(warp, "jax_kernel"):
        raise Unavailable(f"Warp {warp.__version__} has no warp.jax_kernel")
    return _warp(warp.jax_kernel)


def _cpp(out: Any, source: str, compiler: list[str], platform: str, symbol: str = "Add") -> Call:
    if not shutil.which(compiler[0]):
        raise Unavailable(f"there is no {compiler[0]}")
    folder = Path(__file__).parent
    with tempfile.TemporaryDirectory() as scratch:
        library = str(Path(scratch, "add.so"))
        flags = ["-O3", "-std=c++17", "-shared", "-isystem", jax.ffi.include_dir(), "-o", library]
        done = subprocess.run([*compiler, *flags, str(folder / source)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"{compiler[0]} failed: {(done.stderr.strip() or '?').splitlines()[0]}")
        handler = getattr(ctypes.CDLL(library), symbol)
    target = f"dispatch_{symbol}_{platform}"
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler), platform=platform)
    return lambda x, y: jax.ffi.ffi_call(target, out)(x, y)  # type: ignore[no-untyped-call]


def _cpp_cpu(out: Any) -> Call:
    return _cpp(out, "add_cpu.cc", [*(os.environ.get("CXX") or "c++").split(), "-fPIC"], "cpu")


def _cpp_cuda(out: Any) -> Call:
    architecture = f"-arch=sm_{jax.devices('cuda')[0].compute_capability.replace('.', '')}"
    return _cpp(out, "add_cuda.cu", [os.environ.get("NVCC") or "nvcc", architecture, "-Xcompiler", "-fPIC"], "CUDA")


WAYS: dict[str, dict[str, tuple[str, Callable[[Any], Call]]]] = {
    "cpu": {
        "numba": ("native handler, Numba (kernel-bridge)", lambda out: bridge.numba_kernel(_add, out)),
        "operator": ("the same as an XLACustomKernel", _operator),
        "warp-native": ("native handler, Warp (kernel-bridge)", lambda out: _warp(bridge.jax_kernel)),
        "cpp": ("native handler, hand-written C++", _cpp_cpu),
        "warp": ("warp.jax_kernel", _warp_itself),
        "callback": ("jax.pure_callback, NumPy", lambda out: lambda x, y: jax.pure_callback(np.add, out, x, y)),
        "jnp": ("jnp.add", lambda out: jax.jit(jnp.add)),
    },
    "cuda": {
        "numba-cuda": ("native handler, Numba-CUDA (kernel-bridge)", _numba_cuda),
        "warp-native": ("native handler, Warp (kernel-bridge)", lambda out: _warp(bridge.jax_kernel)),
        "cpp": ("native handler, CUDA C++", _cpp_cuda),
        "warp": ("warp.jax_kernel", _warp_itself),
        "jnp": ("jnp.add", lambda out: jax.jit(jnp.add)),
    },
}
