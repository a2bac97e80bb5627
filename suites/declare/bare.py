"""Accepts kernels as their language has them: adds the default launch to bare ones, and refuses those of another one.

The default launch has a thread for each element of the first output. A kernel of CUDA C++ gets pointers to the inputs
and to the outputs, and the number of those elements if it has one more parameter, an integer.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import jax
import numpy as np
from numba.core.registry import CPUDispatcher
from numba.np.numpy_support import as_dtype

from suites.backends.backend import (
    Backend,
    CudaCallable,
    CudaKernel,
    Kernel,
    PallasKernel,
    RawKernel,
    WarpCallable,
    WarpKernel,
)
from suites.backends.numba_cuda_blocks import MISSING as NO_NUMBA_CUDA
from suites.errors import OperatorError

Accepting = Callable[[Any], Kernel | None]
"""From what an author declares to what the backend builds from; None if that is no kernel of its language."""


def accepted(where: str, backend: Backend, kernel: Any) -> Kernel:
    """The kernel as the backend builds from it.

    Args:
        where: What an error begins with: the operator and its field.
        backend: What it is declared for.
        kernel: A bare kernel of the backend's language, or one in the class that says how it is launched.

    Raises:
        OperatorError: It is something else.
    """
    accept, expected, cure = _LANGUAGES[backend]
    found = accept(kernel)
    if found is not None:
        return found
    if backend is Backend.WARP_TILE and _is_warp(kernel):
        raise OperatorError(f"{where} is {_described(kernel)}, expected {expected}. {cure}")
    others = [
        other.id for other in Backend if other is not backend and other in _LANGUAGES and other not in _ANY_FUNCTION
        and _LANGUAGES[other][0](kernel) is not None
    ]  # fmt: skip
    if others and not isinstance(kernel, FunctionType):  # a function without a decorator says nothing of its language
        cure = f"Declare it as {others[0]!r}."
    raise OperatorError(f"{where} is {_described(kernel)}, expected {expected}. {cure}")


def no_kernel(where: str, reference: Any) -> None:
    """Refuses a kernel as the reference, which is to be a function of JAX's arrays."""
    for backend in (Backend.NUMBA, Backend.NUMBA_CUDA, Backend.WARP, Backend.CUDA_RAW):
        if not isinstance(reference, FunctionType) and _LANGUAGES[backend][0](reference) is not None:
            raise OperatorError(
                f"{where} is {_described(reference)}, expected a function of JAX's arrays. Declare the kernel in "
                f"kernels={{{backend.id!r}: ...}}."
            )


@dataclass(frozen=True)
class Same:
    """Gives the same for each dtype, where a backend wants a function of it."""

    value: Any

    def __call__(self, dtype: str) -> Any:
        """What it always gives."""
        return self.value


def declared_dtypes(kernel: Kernel) -> list[tuple[str | None, ...]] | None:
    """The dtypes of inputs and outputs that a kernel is declared for, None for any; None if it takes what it is given.

    Of a Warp kernel these are its annotations, of a Numba kernel its explicit signatures.
    """
    if isinstance(kernel, CPUDispatcher) and not kernel._can_compile:
        return [tuple(map(_numba_dtype, signature.args)) for signature in kernel.nopython_signatures]
    if isinstance(kernel, WarpKernel) and isinstance(kernel.kernel, Same):
        return [tuple(_warp_dtype(argument.type) for argument in kernel.kernel.value.adj.args)]
    if isinstance(kernel, RawKernel) and isinstance(kernel.launch, _Parameters):
        return [kernel.launch.arrays]
    return None


def takes(kernel: Kernel, dtypes: Sequence[str]) -> bool:
    """Whether a kernel is declared for inputs and outputs of these dtypes. How many there are is not compared."""
    declared = declared_dtypes(kernel)
    return declared is None or any(
        len(one) != len(dtypes) or all(wanted in (None, dtype) for wanted, dtype in zip(one, dtypes, strict=True))
        for one in declared
    )


def _numba_dtype(given: Any) -> str | None:
    try:
        return str(as_dtype(given.dtype).name)
    except (AttributeError, NotImplementedError):
        return None


def _warp_dtype(given: Any) -> str | None:
    element = getattr(given, "dtype", None)
    name = getattr(getattr(element, "_wp_scalar_type_", element), "__name__", "")
    return name if re.fullmatch(r"bool|u?int\d+|float\d+", name) else None


def _numba(kernel: Any) -> Kernel | None:
    return kernel if isinstance(kernel, CPUDispatcher) else None


def _numba_cuda(kernel: Any) -> Kernel | None:
    if isinstance(kernel, CudaKernel):
        return kernel if _is_cuda(kernel.dispatcher) and callable(kernel.launch) else None
    return CudaKernel(kernel, _thread_per_element) if _is_cuda(kernel) else None


def _is_cuda(kernel: Any) -> bool:
    if isinstance(kernel, FunctionType):  # what suites.backends.numba_cuda_blocks.kernel makes of it without numba-cuda
        return NO_NUMBA_CUDA is not None
    is_device_function = (getattr(kernel, "targetoptions", None) or {}).get("device") or getattr(kernel, "_device", 0)
    return type(kernel).__module__.startswith("numba.cuda") and callable(kernel) and not is_device_function


def _thread_per_element(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    return {"launch_dims": math.prod(outs[0].shape)}


def _numba_cuda_callable(kernel: Any) -> Kernel | None:
    if isinstance(kernel, CudaCallable):
        return kernel if isinstance(kernel.function, FunctionType) else None
    return CudaCallable(kernel) if isinstance(kernel, FunctionType) else None


def _warp(kernel: Any) -> Kernel | None:
    if isinstance(kernel, WarpKernel) and _is_warp(kernel.kernel):
        return replace(kernel, kernel=Same(kernel.kernel))
    if isinstance(kernel, WarpKernel | WarpCallable):
        return kernel if callable(getattr(kernel, "kernel", len)) else None
    if not _is_warp(kernel):
        return None
    parameters = [(each.label, _inner_rank(each.type)) for each in kernel.adj.args]
    return WarpKernel(Same(kernel), _OutputShapes(tuple(parameters)))


def _warp_tile(kernel: Any) -> Kernel | None:
    return None if _is_warp(kernel) else _warp(kernel)


def _is_warp(kernel: Any) -> bool:
    warp = sys.modules.get("warp")  # whoever has made a kernel has imported it
    return warp is not None and isinstance(kernel, warp.Kernel)


def _inner_rank(given: Any) -> int:
    """Dimensions of an element of a Warp array, which come last in JAX's array: 1 of vectors, 2 of matrices."""
    return len(getattr(getattr(given, "dtype", None), "_shape_", ()))


@dataclass(frozen=True)
class _OutputShapes:
    """The options of a Warp kernel, from the names of its parameters and the dimensions of their elements."""

    parameters: tuple[tuple[str, int], ...]

    def __call__(self, inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        if len(self.parameters) != len(inputs) + len(outs):
            return {}  # jax_kernel says what it expects
        named = zip(self.parameters[len(inputs) :], outs, strict=True)
        shapes = {name: tuple(out.shape[: len(out.shape) - rank]) or (1,) for (name, rank), out in named}
        return {"launch_dims": next(iter(shapes.values())), "output_dims": shapes}


def _cuda_raw(kernel: Any) -> Kernel | None:
    if isinstance(kernel, RawKernel):
        return kernel if isinstance(kernel.source, str) and callable(kernel.name) else None
    if not isinstance(kernel, str):
        return None
    functions = _GLOBAL.findall(_COMMENT.sub(" ", kernel))
    if len(functions) != 1 or functions[0][0]:
        return None
    (_, name, parameters) = functions[0]
    launch = _parsed(parameters)
    return None if launch is None else RawKernel(kernel, Same(name), launch)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_GLOBAL = re.compile(
    r"(template\s*<[^;{}]*>\s*)?__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^()]*)\)"
)
_POINTERS = {
    "float": "float32", "double": "float64", "bool": "bool", "int": "int32", "int32_t": "int32", "long long": "int64",
    "int64_t": "int64", "unsigned": "uint32", "unsigned int": "uint32", "uint32_t": "uint32", "uint64_t": "uint64",
    "unsigned long long": "uint64", "short": "int16", "int16_t": "int16", "unsigned char": "uint8", "uint8_t": "uint8",
    "int8_t": "int8",
}  # fmt: skip
_COUNTS: dict[str, Any] = {
    "int": np.int32, "int32_t": np.int32, "unsigned": np.uint32, "unsigned int": np.uint32, "uint32_t": np.uint32,
    "long long": np.int64, "int64_t": np.int64, "long": np.int64, "unsigned long long": np.uint64,
    "uint64_t": np.uint64, "size_t": np.uint64,
}  # fmt: skip


@dataclass(frozen=True)
class _Parameters:
    """The launch of a kernel in CUDA C++ with these parameters: the dtypes of its arrays, the type of their size."""

    arrays: tuple[str | None, ...]
    size: Any

    def __call__(self, inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        elements = math.prod(outs[0].shape)
        return {"launch_dims": elements, "scalars": () if self.size is None else (self.size(elements),)}


def _parsed(parameters: str) -> _Parameters | None:
    """The launch from the text of the parameters; None if they are more than arrays and their size."""
    types = [re.sub(r"\b(const|__restrict__|restrict)\b|\w+\s*$", " ", each) for each in parameters.split(",")]
    names = [" ".join(each.replace("*", " ").split()) for each in types]
    arrays = ["*" in each for each in types]
    if arrays and all(arrays):
        return _Parameters(tuple(map(_POINTERS.get, names)), None)
    if arrays and all(arrays[:-1]) and names[-1] in _COUNTS:
        return _Parameters(tuple(map(_POINTERS.get, names[:-1])), _COUNTS[names[-1]])
    return None


def _pallas(kernel: Any) -> Kernel | None:
    if isinstance(kernel, PallasKernel):
        return kernel if callable(kernel.make) else None
    is_kernel = isinstance(kernel, type) or _numba(kernel) or _is_warp(kernel) or not callable(kernel)
    return (
        None if is_kernel or type(kernel).__module__.startswith(("numba.", "suites.")) else PallasKernel(_Made(kernel))
    )


@dataclass(frozen=True)
class _Made:
    """Gives the same function of arrays for each call, made to return a list."""

    function: Callable[..., Any]

    def __call__(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., list[jax.Array]]:
        return lambda *arrays: jax.tree.leaves(self.function(*arrays))


_WARP_FUNCTION = "a function that makes kernels of a dtype goes into suites.WarpKernel"
_LANGUAGES: dict[Backend, tuple[Accepting, str, str]] = {
    Backend.NUMBA: (_numba, "a function decorated with numba.njit", "Decorate it with numba.njit."),
    Backend.NUMBA_PARALLEL: (
        _numba,
        "a function decorated with numba.njit(parallel=True)",
        "Decorate it with numba.njit(parallel=True).",
    ),
    Backend.NUMBA_CUDA: (
        _numba_cuda,
        "a function decorated with numba.cuda.jit, or a suites.CudaKernel of one",
        "Decorate it with numba.cuda.jit, without device=True.",
    ),
    Backend.NUMBA_CUDA_CALLABLE: (
        _numba_cuda_callable,
        "a Python function that launches kernels of numba.cuda",
        "Declare a single kernel as 'numba_cuda'.",
    ),
    Backend.NUMBA_CUDA_REPLAY: (
        _numba_cuda_callable,
        "a Python function that launches kernels of numba.cuda",
        "Declare a single kernel as 'numba_cuda'.",
    ),
    Backend.WARP: (
        _warp,
        "a function decorated with warp.kernel, a suites.WarpKernel or a suites.WarpCallable",
        f"Decorate it with warp.kernel; {_WARP_FUNCTION}.",
    ),
    Backend.WARP_TILE: (
        _warp_tile,
        "a suites.WarpKernel or a suites.WarpCallable",
        "Say in suites.WarpKernel(kernel, options) how its blocks are launched.",
    ),
    Backend.CUDA_RAW: (
        _cuda_raw,
        "CUDA C++ with one __global__ void function, no template, of pointers and at most their size, "
        "or a suites.RawKernel",
        "Name the function and its launch with suites.RawKernel(source, name, launch).",
    ),
    Backend.PALLAS: (
        _pallas,
        "a function of JAX arrays, or a suites.PallasKernel",
        "Call pallas_call in it.",
    ),
}
_ANY_FUNCTION = {Backend.NUMBA_PARALLEL, Backend.NUMBA_CUDA_CALLABLE, Backend.NUMBA_CUDA_REPLAY, Backend.PALLAS}
"""Backends that say nothing about what a kernel is: they take any Python function, or the same as another one."""


def _described(kernel: Any) -> str:
    name = getattr(kernel, "__name__", None) or getattr(kernel, "key", None)
    if isinstance(kernel, FunctionType):
        return "a lambda" if name == "<lambda>" else f"the plain Python function {name}"
    package = type(kernel).__module__.partition(".")[0]
    if package in ("builtins", "suites"):
        return f"a {type(kernel).__name__}" + (f" ({kernel!r})" if isinstance(kernel, bool | int | float) else "")
    return f"{name or 'a kernel'} ({package}'s {type(kernel).__name__})"
