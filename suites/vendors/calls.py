"""Calls kernels through the packages that makers of kernel languages ship for JAX, beside ours in the tables.

They are ``jax_triton`` (``jax_triton.triton_call``), ``cutlass`` (``cutlass.jax.cutlass_call``, of CuTe DSL),
``cutile`` (``cuda.tile.jax.cutile_call``), ``jax_tvm_ffi`` and ``mosaic_gpu`` (Pallas on Mosaic GPU). None of their
packages is required. Where one is missing, or does not lower a call with the installed JAX, its cells are skipped with
that reason. The backend ``tvm_ffi`` is the bridge's own call of the function that ``jax_tvm_ffi`` calls.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from suites.backends.pallas import BLOCK
from suites.kernels.function_kernel import FunctionKernel
from suites.kernels.half_precision import wide
from suites.kernels.kernel import arranged

if TYPE_CHECKING:
    from suites.backends.triton import TritonKernel


class VendorCall(FunctionKernel):
    """A kernel that is called through its vendor's own function: a :class:`suites.FunctionKernel`.

    Its ``make`` imports the vendor's package, so that operators load without it.
    """

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The function that was made, compiled. Empty outputs need no kernel."""
        if not any(np.prod(out.shape) for out in outs):
            return lambda *arrays: [jnp.zeros(out.shape, out.dtype) for out in outs]
        return super().build(inputs, outs)


def triton_call(kernel: TritonKernel) -> VendorCall:
    """The call of a Triton kernel through ``jax_triton``, with the launch that it has in the bridge.

    Args:
        kernel: Its parameters are the inputs, then the outputs, then all others, which become constants.
    """

    def make(inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        call = import_module("jax_triton").triton_call
        results = "out_type" if "out_type" in inspect.signature(call).parameters else "out_shape"  # before 0.4

        def launched(launch: dict[str, Any]) -> Callable[..., Any]:
            grid = launch.pop("grid")
            fixed = {"kernel": kernel.kernel, "grid": grid if isinstance(grid, tuple) else (grid,), results: list(outs)}
            return lambda *arrays: call(*arrays, **fixed, **launch)

        return arranged(launched, kernel.launch(inputs, outs))

    return VendorCall(make)


def mosaic_elementwise(function: Callable[..., Sequence[jax.Array]], long_inputs: int | None = None) -> VendorCall:
    """A kernel of Pallas on Mosaic GPU that applies a function to blocks of its arrays.

    Mosaic GPU does not cut the last block at the end of an array. Arrays that are no whole number of blocks are copied
    into longer ones.

    Args:
        function: Takes blocks of the long inputs, and the other inputs as scalars. Returns blocks of the outputs.
        long_inputs: How many of the inputs, the first ones, are as long as the outputs; all by default.
    """

    def make(inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., list[jax.Array]]:
        mosaic = import_module("jax.experimental.pallas.mosaic_gpu")
        size = outs[0].size
        blocks = pl.cdiv(size, BLOCK)
        long_count = len(inputs) if long_inputs is None else long_inputs

        def kernel(*references: Any) -> None:
            sources, targets = references[: len(inputs)], references[len(inputs) :]
            here = pl.ds(jax.lax.axis_index("block") * BLOCK, BLOCK)
            values = [source[here] for source in sources[:long_count]] + [each[0] for each in sources[long_count:]]
            wider = [value.astype(wide(value.dtype)) for value in values]
            for target, value in zip(targets, function(*wider), strict=True):
                target[here] = value.astype(target.dtype)

        results = [jax.ShapeDtypeStruct((blocks * BLOCK,), out.dtype) for out in outs]
        keyword = "out_type" if "out_type" in inspect.signature(mosaic.kernel).parameters else "out_shape"
        run = mosaic.kernel(kernel, grid=(blocks,), grid_names=("block",), **{keyword: results})

        def call(*arrays: jax.Array) -> list[jax.Array]:
            flat = [array.reshape(-1) for array in arrays]
            padded = [jnp.pad(each, (0, blocks * BLOCK - size)) for each in flat[:long_count]]
            results = run(*padded, *flat[long_count:])
            return [each[:size].reshape(out.shape) for each, out in zip(results, outs, strict=True)]

        return call

    return VendorCall(make)


def _add(name: str) -> Callable[[Sequence[Any], Sequence[Any]], Callable[..., Any]]:
    """Makes the kernel of add with this name in :mod:`suites.vendors.adds`, whose import needs Triton."""

    def make(inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        kernel = getattr(import_module("suites.vendors.adds"), name)
        call = kernel if callable(kernel) else triton_call(kernel).make
        return call(inputs, outs)

    return make


ADDS: dict[str, FunctionKernel] = {
    "jax_triton": VendorCall(_add("TRITON_ADD")),
    "cutlass": VendorCall(_add("cutlass_add")),
    "cutile": VendorCall(_add("cutile_add")),
    "jax_tvm_ffi": VendorCall(_add("jax_tvm_ffi_add")),
    "tvm_ffi": FunctionKernel(_add("tvm_ffi_add")),
    "mosaic_gpu": mosaic_elementwise(lambda x, y: [x + y]),
}
"""The kernels of the operator add by backend. They also show whether a vendor's call lowers here."""

_MODULES = {
    "cutlass": "cutlass.jax",
    "cutile": "cuda.tile.jax",
    "tvm_ffi": "cutlass.cute",
    "mosaic_gpu": "jax.experimental.pallas.mosaic_gpu",
}
"""The module that a backend imports, if its name differs from the id."""


@functools.cache
def why_missing(backend: str) -> str | None:
    """Why calls of a vendor do not work here, in one line; None if one lowers for CUDA."""
    module, probe = _MODULES.get(backend, backend), ADDS[backend]
    try:
        import_module(module)
    except Exception as error:  # some raise more than ImportError where there is no driver
        return f"{module} does not import ({_line(error)}; extra vendors)"
    spec = jax.ShapeDtypeStruct((BLOCK,), np.float32)
    try:
        with warnings.catch_warnings(action="ignore"):  # of changes of a compiler
            jax.jit(probe.build([spec, spec], [spec])).trace(spec, spec).lower(lowering_platforms=("cuda",))
    except Exception as error:
        return f"{module} does not lower with JAX {jax.__version__} here ({_line(error)})"
    return None


def _line(error: Exception) -> str:
    message = (str(error).strip() or "without a message").splitlines()[0]
    return f"{type(error).__name__}: {message[:200]}"


def accept(declared: Any) -> VendorCall | None:
    """Returns a call of a vendor's own function."""
    return declared if isinstance(declared, VendorCall) and callable(declared.make) else None
