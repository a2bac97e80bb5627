"""Adds the backends of Numba-CUDA, Warp, Triton and cuTile, without importing them.

The libraries together take more than a second to import. So their files of kernels, :mod:`suites.backends.numba_cuda`,
:mod:`suites.backends.warp`, :mod:`suites.backends.triton` and :mod:`suites.backends.cutile`, are imported when an
operator declares such a kernel, or a GPU is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from suites.backends.backend import Backend, register_backend
from suites.backends.kernel import Kernel


def _from(module: str, name: str) -> Callable[..., Any]:
    """A function of a module beside this one, which is imported at the first call."""

    def call(*arguments: Any) -> Kernel | str | None:
        found: Kernel | str | None = getattr(import_module(f"suites.backends.{module}"), name)(*arguments)
        return found

    return call


NUMBA_CUDA = register_backend(
    Backend(
        id="numba_cuda",
        targets={"cuda": "bridge_cuda"},
        accept=_from("numba_cuda", "accept_kernel"),
        expected="a function decorated with numba.cuda.jit, or a suites.CudaKernel of one",
        cure="Decorate it with numba.cuda.jit, without device=True.",
        missing=_from("numba_cuda_blocks", "missing"),
    )
)
NUMBA_CUDA_MLIR = register_backend(
    Backend(
        id="numba_cuda_mlir",
        targets={"cuda": "bridge_cuda"},
        accept=_from("numba_cuda_mlir", "accept"),
        expected="a function decorated with numba_cuda_mlir.cuda.jit or numba.cuda.jit, or a suites.CudaKernel of one",
        cure="Decorate it with numba_cuda_mlir.cuda.jit, without device=True.",
        language="numba_cuda",
        missing=_from("numba_cuda_mlir", "missing"),
    )
)
NUMBA_CUDA_CALLABLE = register_backend(
    Backend(
        id="numba_cuda_callable",
        targets={"cuda": "bridge_cuda_host"},
        accept=_from("numba_cuda", "accept_callable"),
        expected="a Python function that launches kernels of numba.cuda",
        cure="Declare a single kernel as 'numba_cuda'.",
        language="numba_cuda",
        missing=_from("numba_cuda_blocks", "missing"),
    )
)
NUMBA_CUDA_REPLAY = register_backend(
    Backend(
        id="numba_cuda_replay",
        targets={"cuda": "bridge_cuda"},
        accept=_from("numba_cuda", "accept_replayed"),
        expected="a Python function that launches kernels of numba.cuda",
        cure="Declare a single kernel as 'numba_cuda'.",
        language="numba_cuda",
        missing=_from("numba_cuda_blocks", "missing"),
    )
)
WARP = register_backend(
    Backend(
        id="warp",
        targets={"cpu": "bridge_cpu", "cuda": "bridge_cuda"},
        accept=_from("warp", "accept"),
        expected="a function decorated with warp.kernel, a suites.WarpKernel or a suites.WarpCallable",
        cure="Decorate it with warp.kernel; a function that makes kernels of a dtype goes into suites.WarpKernel.",
        has_adjoints=True,
    )
)
WARP_TILE = register_backend(
    Backend(
        id="warp_tile",
        targets={"cpu": "bridge_cpu", "cuda": "bridge_cuda"},
        accept=_from("warp", "accept_tile"),
        expected="a suites.WarpKernel or a suites.WarpCallable",
        cure="Say in suites.WarpKernel(kernel, options) how its blocks are launched.",
        language="warp",
        has_adjoints=True,
    )
)
TRITON = register_backend(
    Backend(
        id="triton",
        targets={"cuda": "bridge_cuda"},
        accept=_from("triton", "accept"),
        expected="a suites.TritonKernel or a suites.TritonCallable",
        cure="Say in suites.TritonKernel(kernel, launch) how a function decorated with triton.jit is launched.",
        missing=_from("triton", "missing"),
    )
)
CUTILE_KERNEL = register_backend(
    Backend(
        id="cutile_kernel",
        targets={"cuda": "bridge_cuda"},
        accept=_from("cutile", "accept"),
        expected="a suites.CutileKernel",
        cure="Say in suites.CutileKernel(kernel, launch) how a function decorated with cuda.tile.kernel is launched.",
        language="cutile",
        missing=_from("cutile", "missing"),
    )
)
