"""Lists the built-in backends, a row each, in the order in which tables show them.

A row names the module of its kernels. The module is imported when an operator declares such a kernel, or when somebody
asks whether the backend can run here: Numba-CUDA, Warp, Triton and cuTile together take more than a second to import.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from suites.backends.backend import BACKENDS as BACKENDS
from suites.backends.backend import Backend as Backend
from suites.backends.backend import register_backend as register_backend
from suites.kernels.half_precision import HALVES
from suites.kernels.library import Library
from suites.numerics.precision import FLOAT8


def _later(module: str, name: str, *first: Any) -> Callable[..., Any]:
    """A function of a module that is imported at the first call."""
    return lambda *arguments: getattr(import_module(f"suites.{module}"), name)(*first, *arguments)


def _row(
    id_: str,
    targets: dict[str, str | None],
    module: str,
    expected: str,
    cure: str,
    *,
    accept: str = "accept",
    missing: Callable[[], str | None] | None = None,
    **facts: Any,
) -> Backend:
    """Registers a backend whose kernels are in ``module``; there, ``accept`` takes an author's declaration."""
    facts |= {} if missing is None else {"missing": missing}
    row = Backend(id=id_, targets=targets, accept=_later(module, accept), expected=expected, cure=cure, **facts)
    return register_backend(row)


_CPU: dict[str, str | None] = {"cpu": "bridge_cpu"}
_CUDA: dict[str, str | None] = {"cuda": "bridge_cuda"}

_row(
    "jnp", {"cpu": None, "cuda": None}, "backends.jnp",
    "a function of JAX arrays", "Write it with jax.numpy.",
    takes_any_callable=True,
)  # fmt: skip
_serial = _row(
    "numba", _CPU, "backends.numba_cpu",
    "a function decorated with numba.njit, or a suites.NumbaKernel of one", "Decorate it with numba.njit.",
)  # fmt: skip
_row(
    "numba_parallel", _CPU, "backends.numba_cpu",
    "a function decorated with numba.njit(parallel=True)", "Decorate it with numba.njit(parallel=True).",
    language="numba", serial_twin=_serial,
)  # fmt: skip
_row(
    "native", _CPU, "backends.native",
    "what bridge.native_kernel returns for a C function", "Wrap the function with it.",
    accept="accept_cpu",
)  # fmt: skip
_row(
    "native_cuda", {"cuda": "bridge_cuda_host"}, "backends.native",
    "what bridge.native_kernel returns for a C function with platform='cuda', not capturable",
    "Wrap the function with it.",
    accept="accept_cuda",
)  # fmt: skip
_row(
    "numba_cuda", _CUDA, "backends.numba_cuda",
    "a function decorated with numba.cuda.jit, or a suites.CudaKernel of one",
    "Decorate it with numba.cuda.jit, without device=True.",
    accept="accept_kernel", missing=_later("kernels.numba_cuda.blocks", "missing"),
)  # fmt: skip
_row(
    "numba_cuda_mlir", _CUDA, "backends.numba_cuda_mlir",
    "a function decorated with numba_cuda_mlir.cuda.jit or numba.cuda.jit, or a suites.CudaKernel of one",
    "Decorate it with numba_cuda_mlir.cuda.jit, without device=True.",
    language="numba_cuda", missing=_later("backends.numba_cuda_mlir", "missing"),
)  # fmt: skip
_row(
    "numba_cuda_callable", {"cuda": "bridge_cuda_host"}, "backends.numba_cuda",
    "a Python function that launches kernels of numba.cuda", "Declare a single kernel as 'numba_cuda'.",
    accept="accept_callable", language="numba_cuda", missing=_later("kernels.numba_cuda.blocks", "missing"),
)  # fmt: skip
_row(
    "numba_cuda_replay", _CUDA, "backends.numba_cuda",
    "a Python function that launches kernels of numba.cuda", "Declare a single kernel as 'numba_cuda'.",
    accept="accept_replayed", language="numba_cuda", missing=_later("kernels.numba_cuda.blocks", "missing"),
)  # fmt: skip
_row(
    "warp", {**_CPU, **_CUDA}, "backends.warp",
    "a function decorated with warp.kernel, a suites.WarpKernel or a suites.WarpCallable",
    "Decorate it with warp.kernel; a function that makes kernels of a dtype goes into suites.WarpKernel.",
    has_adjoints=True,
)  # fmt: skip
_row(
    "warp_tile", {**_CPU, **_CUDA}, "backends.warp",
    "a suites.WarpKernel or a suites.WarpCallable",
    "Say in suites.WarpKernel(kernel, options) how its blocks are launched.",
    accept="accept_tile", language="warp", has_adjoints=True,
)  # fmt: skip
_row(
    "triton", _CUDA, "backends.triton",
    "a suites.TritonKernel or a suites.TritonCallable",
    "Say in suites.TritonKernel(kernel, launch) how a function decorated with triton.jit is launched.",
    missing=_later("backends.triton", "missing"),
)  # fmt: skip
_row(
    "cutile_kernel", _CUDA, "backends.cutile",
    "a suites.CutileKernel or a suites.CutileCallable",
    "Say in suites.CutileKernel(kernel, launch) how a function decorated with cuda.tile.kernel is launched.",
    language="cutile", missing=_later("backends.cutile", "missing"),
)  # fmt: skip
_row(
    "cuda_raw", _CUDA, "backends.cuda_raw",
    "CUDA C++ with one __global__ void function, no template, of pointers and at most their size, "
    "or a suites.RawKernel",
    "Name the function and its launch with suites.RawKernel(source, name, launch).",
    missing=_later("backends.cuda_raw", "missing"),
)  # fmt: skip
_row(
    "pallas", {"cuda": None}, "backends.pallas",
    "a function of JAX arrays, or a suites.PallasKernel", "Call pallas_call in it.",
    missing=_later("backends.pallas", "missing"), takes_any_callable=True,
)  # fmt: skip


def _vendor(id_: str, call: str, **facts: Any) -> None:
    """Registers a call from JAX that the makers of a language ship."""
    _row(
        id_, {"cuda": None}, "vendors.calls",
        "a suites.VendorCall", f"Return a function that calls {call} from suites.VendorCall(make).",
        missing=_later("vendors.calls", "why_missing", id_), **facts,
    )  # fmt: skip


_NO_BATCHES = "raises under jax.vmap: it has no rule for batches"
_vendor("jax_triton", "jax_triton.triton_call", no_batches=f"jax_triton.triton_call {_NO_BATCHES}")
_vendor("cutlass", "cutlass.jax.cutlass_call", no_batches=f"cutlass.jax.cutlass_call {_NO_BATCHES}")
_vendor("cutile", "cuda.tile.jax.cutile_call", no_batches=f"cuda.tile.jax.cutile_call {_NO_BATCHES}")
_vendor("jax_tvm_ffi", "a function of jax_tvm_ffi")
_row(
    "tvm_ffi", {"cuda": "bridge_cuda_host"}, "kernels.function_kernel",
    "a suites.FunctionKernel", "Return a function that calls bridge.tvm_ffi_kernel from suites.FunctionKernel(make).",
    missing=_later("vendors.calls", "why_missing", "tvm_ffi"),
    no_export="a tvm_ffi.Function exists in this process alone",
)  # fmt: skip
_row(
    "cute_dsl", {"cuda": "bridge_cuda_host"}, "vendors.calls",
    "a suites.VendorCall", "Call bridge.tvm_ffi_kernel with what cute.compile returns, in suites.VendorCall(make).",
    missing=_later("vendors.calls", "why_missing", "tvm_ffi"),
    no_export="what CuTe DSL compiles exists in this process alone",
)  # fmt: skip
_vendor("mosaic_gpu", "jax.experimental.pallas.mosaic_gpu.kernel")


def _peer(
    platforms: dict[str, str | None],
    module: str,
    arrays: str,
    library: Library,
    missing_dtypes: dict[str, str] | None = None,
) -> None:
    """Registers a library whose functions are timed beside the kernels; its id is the name that it is imported by."""
    if missing_dtypes is None:
        missing_dtypes = {each: f"{library.name} has no {each}" for each in ("bfloat16", FLOAT8)}
    _row(
        library.module, platforms, module,
        f"a function of {arrays} arrays that returns a function without arguments",
        "The function that it returns computes the results.",
        missing_dtypes=missing_dtypes, takes_any_callable=True, library=library,
    )  # fmt: skip


_peer({"cpu": None}, "peers.host", "NumPy", Library("NumPy", "numpy", ("numpy",), "python -m pip install numpy"))
_peer(
    {"cpu": None},
    "peers.host",
    "NumPy",
    Library("SciPy", "scipy", ("scipy",), "python -m pip install scipy"),
    dict.fromkeys((*HALVES, FLOAT8), "SciPy has no numbers of 16 or 8 bits"),
)
_peer(
    {"cuda": None}, "peers.cupy", "CuPy",
    Library(
        "CuPy", "cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
        'python -m pip install "cupy-cuda13x>=13.6" (or cupy-cuda12x)',
    ),
)  # fmt: skip
_peer(
    {"cpu": None, "cuda": None}, "peers.brainevent", "JAX",
    Library("brainevent", "brainevent", ("brainevent",), 'python -m pip install "brainevent>=0.2.1"'),
    {},
)  # fmt: skip
