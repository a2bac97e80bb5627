"""Compiles kernels of numba-cuda-mlir, the successor of numba-cuda, for :func:`bridge.numba_cuda_kernel`.

Only the functions import numba-cuda-mlir, because ``import bridge`` must work without it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from bridge.cuda.carried_cubins import Cubin
from bridge.cuda.launch_shape import MOST, LaunchShape
from bridge.errors import BridgeError, KernelTypeError, LaunchError
from bridge.kernel.arguments import ArrayType
from bridge.kernel.refused import refused
from bridge.languages.numba_cuda.array_parameters import array_launch
from bridge.languages.numba_cuda.cuda_compilation import CudaDefinition, check_declared, defaults
from bridge.table import require_gpu


def is_mlir(kernel: Any) -> bool:
    """Whether a kernel was made by ``numba_cuda_mlir.cuda.jit``."""
    return type(kernel).__module__.startswith("numba_cuda_mlir.") and hasattr(kernel, "targetoptions")


def require_mlir(kernel: Any) -> None:
    """Refuses a kernel that numba-cuda-mlir cannot run here.

    Raises:
        CudaUnavailableError: There is no GPU.
        KernelTypeError: The kernel is compiled with ``debug=True``.
    """
    from numba_cuda_mlir import cuda

    require_gpu(cuda, "numba-cuda-mlir")
    if kernel.targetoptions.get("debug"):
        raise KernelTypeError(
            f"{kernel.py_func.__name__} was made by numba_cuda_mlir.cuda.jit with debug=True, but the bridge reads "
            "exceptions of numba.cuda.jit only. Leave debug out, or decorate the kernel with numba.cuda.jit."
        )


def check_threads(name: str, shape: LaunchShape) -> None:
    """Refuses a launch of more threads than numba-cuda-mlir counts: its indices and sizes have 32 bits.

    Raises:
        LaunchError: There are too many threads.
    """
    threads = math.prod(shape.grid) * math.prod(shape.block)
    if threads > MOST:
        raise LaunchError(
            f"{name}: the launch has {threads} threads, but numba-cuda-mlir counts at most {MOST}. Let each thread "
            "handle several elements, or decorate the kernel with numba.cuda.jit, which counts with 64 bits."
        )


def compile_kernel(
    definition: CudaDefinition, arrays: Sequence[ArrayType], shape: LaunchShape, capability: int
) -> tuple[Cubin, str | None]:
    """A kernel for these arrays and a compute capability, such as 90, and what its code was made from.

    The latter is the same in every process. It is None if the kernel is linked with other code.

    Raises:
        KernelCompileError: The compiler refuses the kernel for these types.
    """
    from numba_cuda_mlir import types
    from numba_cuda_mlir.numba_cuda.np.numpy_support import from_dtype

    from bridge.compat import numba_cuda_mlir as compat

    given = definition.dispatcher
    array_types = [
        types.Array(from_dtype(jnp.dtype(array.dtype)), array.rank, "C", readonly=not array.writable)
        for array in arrays
    ]
    try:
        if not compat.takes_new_types(given):
            check_declared(definition, array_types)
        options = {**given.targetoptions, "chip": f"sm_{capability}"}
        dispatcher = type(given)(given.py_func, targetoptions=options)
        with compat.compiling_for(capability):
            compiled = dispatcher.compile(types.void(*array_types, *defaults(definition, len(arrays), types)))
    except (BridgeError, Warning):
        raise
    except Exception as error:
        raise refused(definition, array_types, error) from error
    code = compat.code(compiled, [array.rank for array in arrays])
    text = _with_numbers_for_names(code.mlir.replace(f'chip = "sm_{capability}"', ""))
    plain = {name: value for name, value in options.items() if isinstance(value, str | int | float | tuple)}
    del plain["chip"]
    is_alone = code.is_alone and not options.get("link")
    identity = f"{sorted(plain.items())}\n{text}" if is_alone else None
    launch = array_launch(definition.name, shape, arrays, code.is_cooperative, memref_words, "numba-cuda-mlir")
    return Cubin(code.cubin, code.name, launch), identity


_DEFINED = re.compile(r"(?:\bfunc\b[^@\n]*@([\w$]+)[^\n]*\{$|\bglobal\b[^@\n]*@([\w$]+))", re.MULTILINE)


def _with_numbers_for_names(text: str) -> str:
    """The code with a number for each name that it defines: some names have an address or a count of the process."""
    names = dict.fromkeys(function or variable for function, variable in _DEFINED.findall(text))
    numbers = {name: str(number) for number, name in enumerate(names)}
    return re.sub(r"(?<=@)[\w$]+", lambda found: numbers.get(found[0], found[0]), text)


def memref_words(item_bytes: int, extents: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    """A C-contiguous array as an MLIR memref, and the indices of the words that take the address of its data.

    These are the allocated and the aligned address, the offset, the extents, and the strides in items.
    """
    strides = [math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
    return [0, 0, 0, *extents, *strides], (0, 1)
