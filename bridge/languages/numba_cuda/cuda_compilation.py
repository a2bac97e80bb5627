"""Compiles Numba-CUDA kernels for the types of a call and loads them on JAX's GPUs.

Only the functions import numba-cuda, because ``import bridge`` must work without it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp

from bridge.errors import BridgeError, KernelCompileError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.embedded import Image
from bridge.ffi.cuda.limits import check_cooperative
from bridge.ffi.cuda.ordinals import load_everywhere
from bridge.languages.launch_shape import LaunchShape, check_limits
from bridge.languages.native_language import Definition
from bridge.signature.array_types import ArrayType
from bridge.source.captured import captured_error
from bridge.source.imports import hoist_imports
from bridge.source.includes import included_by
from bridge.source.llvm_code import portable_code


@dataclass(frozen=True, eq=False)
class CudaDefinition(Definition):
    """A function that is decorated with ``numba.cuda.jit``.

    Attributes:
        dispatcher: Numba's dispatcher, which the decorator made.
    """

    dispatcher: Any = field(repr=False)

    @classmethod
    def of(cls, dispatcher: Any) -> CudaDefinition:
        function = dispatcher.py_func
        return cls(function.__name__, function, function, dispatcher)

    @functools.cached_property
    def compilable(self) -> Any:
        """The user's dispatcher, or an equal dispatcher of a function without imports in its body."""
        function = hoist_imports(self.dispatcher.py_func)
        if function is self.dispatcher.py_func and self.dispatcher._can_compile:
            return self.dispatcher
        return type(self.dispatcher)(function, targetoptions=self.dispatcher.targetoptions)

    @property
    def is_debug(self) -> bool:
        """Whether the kernel is compiled with ``debug=True``, so that it tells the exceptions that it raises."""
        return bool(self.dispatcher.targetoptions.get("debug"))


def numba_type(name: str, array: ArrayType) -> Any:
    """Numba-CUDA's type of a C-contiguous array.

    Raises:
        KernelCompileError: Numba-CUDA has no such dtype.
    """
    from numba.cuda import types
    from numba.cuda.np.numpy_support import from_dtype

    try:
        return types.Array(from_dtype(jnp.dtype(array.dtype)), array.rank, "C", readonly=not array.writable)
    except NotImplementedError as error:
        raise KernelCompileError(
            f"{name}: Numba-CUDA has no {array.dtype} arrays. Convert to one it has (bool, integers of 8 to 64 bits, "
            "float16, bfloat16, float32, float64, complex64, complex128) before the call."
        ) from error


def compile_kernel(definition: CudaDefinition, arrays: Sequence[ArrayType]) -> Any:
    """Numba's compiled kernel for these argument types, for the current device.

    Raises:
        KernelCompileError: Numba refuses the kernel for these types.
    """
    array_types = tuple(numba_type(definition.name, array) for array in arrays)
    listed = ", ".join(map(str, array_types))
    try:
        dispatcher = definition.compilable
        if not definition.dispatcher._can_compile:
            _check_declared(definition, array_types)
        return compile_now(dispatcher, (*array_types, *_defaults(definition, len(array_types))))
    except (BridgeError, Warning):
        raise
    except Exception as error:
        if (captured := captured_error(definition.name, definition.place, definition.dispatcher.py_func)) is not None:
            raise captured from None
        hint = (
            "\nInputs are read-only, because JAX arrays are immutable: write to an output, or alias the input to one "
            "with input_output_aliases."
            if "Cannot modify readonly" in str(error)
            else ""
        )
        raise KernelCompileError(
            f"Numba cannot compile {definition.name} ({definition.place}) for ({listed}):\n{error}{hint}"
        ) from error


def _defaults(definition: CudaDefinition, count: int) -> tuple[Any, ...]:
    """Numba's types of the parameters after the first ``count``, which have default values and take no argument."""
    from numba.cuda import types

    parameters = list(inspect.signature(definition.function).parameters.values())
    return tuple(types.Omitted(each.default) for each in parameters[count:] if each.default is not each.empty)


def _check_declared(definition: CudaDefinition, array_types: Sequence[Any]) -> None:
    """Raises KernelCompileError if a kernel with explicit signatures has none of these dtypes and ranks."""
    declared = list(definition.dispatcher.overloads)
    for signature in declared:
        if [(t.dtype, t.ndim) for t in signature] == [(t.dtype, t.ndim) for t in array_types]:
            return
    raise KernelCompileError(
        f"{definition.name} is declared for {'; '.join(map(str, declared))}, but was called with {array_types}. "
        "Convert the arguments, or declare this signature too."
    )


def compile_now(dispatcher: Any, array_types: tuple[Any, ...]) -> Any:
    """The compiled kernel of a dispatcher for these types, which carries its code, see :func:`code_of`.

    Linked files are part of the code. So a kernel that was linked before, without the bridge, is linked again: its
    files may have changed since.
    """
    was_compiled = array_types in dispatcher.overloads
    compiled = dispatcher.compile(array_types)
    if was_compiled and compiled._codelibrary._linking_files and _CODE not in vars(compiled):
        again = type(dispatcher)(dispatcher.py_func, targetoptions=dispatcher.targetoptions)
        compiled = dispatcher.overloads[array_types] = again.compile(array_types)
    code_of(compiled)
    return compiled


_CODE = "_bridge_code"
_ADDRESS = re.compile(r"\binttoptr\s*\(?\s*i64 [1-9]")
_BOUND = re.compile(r'!"(?:maxn|reqn|minn|minctasm|maxcluster|cluster)\w*", i32 \d+')


def code_of(compiled: Any) -> str | None:
    """What Numba-CUDA made of a kernel: the same in every process, and different if the machine code differs.

    None if the kernel refers to memory or to functions of this process, such as a global array on the device.
    """
    known: dict[str, str | None] = vars(compiled)
    if _CODE not in known:
        known[_CODE] = _write_code(compiled)
    return known[_CODE]


def _write_code(compiled: Any) -> str | None:
    library = compiled._codelibrary
    code = portable_code(library.llvm_strs, library._entry_name, lambda definition, find: None)
    if library.referenced_objects or library._setup_functions or _ADDRESS.search(code):
        return None
    linked = [_linked_code(file) for file in library._linking_files]
    if None in linked:
        return None
    options: dict[str, Any] = {
        **library._nvvm_options,
        "max_registers": library._max_registers,
        "lto": library._lto,
        "debug": bool(compiled.debug),
        "lineinfo": bool(compiled.lineinfo),
        "cooperative": bool(compiled.cooperative),
        "shared_memory_carveout": compiled.shared_memory_carveout,
        # Metadata is no part of portable code.
        "bounds": {bound for module in library.llvm_strs for bound in _BOUND.findall(module)},
    }
    if compiled.debug:
        # The code only has the number of an exception.
        options["exceptions"] = compiled.call_helper.exceptions
    return "\n".join([_plain(options), *sorted(map(str, linked)), code])


def _plain(value: Any) -> str:
    """An option in the same words in every process."""
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_plain(key)}: {_plain(each)}" for key, each in value.items())) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(_plain, value))) + "}"
    return repr(value)


def _linked_code(file: Any) -> str | None:
    """The content of a file that a kernel is linked with, and of what it includes."""
    from numba.cuda.utils import cached_file_read

    if isinstance(file, str):
        kind, data = os.path.splitext(file)[1].lstrip("."), cached_file_read(file, how="rb")
    else:
        kind, data = str(file.kind), file.data
        data = data.read() if hasattr(data, "read") else data
    content = data.encode() if isinstance(data, str) else bytes(data)
    digest = hashlib.sha256(content).hexdigest()
    if kind != "cu":
        return f"{kind} {digest}"
    included = included_by(content.decode("latin-1"), [os.curdir, *_search_paths()])
    if included is None:
        return None
    return f"{kind} {digest} {included.digest} {() if included.is_complete else _versions()}"


def _search_paths() -> list[str]:
    from numba.cuda import config

    return [path for path in (config.CUDA_NVRTC_EXTRA_SEARCH_PATHS or "").split(":") if path]


def _versions() -> tuple[str, ...]:
    """The versions of the headers that come with Numba-CUDA and its compiler."""
    from cuda.bindings import nvrtc
    from numba import cuda

    return cuda.__version__, *map(str, nvrtc.nvrtcVersion()[1:])


def loaded(compiled: Any, ordinal: int) -> Any:
    """Numba's loaded kernel for a device whose context is current.

    Numba loads the kernel once for each compute capability, not for each device. The library that it loads belongs to
    no device. If it is loaded for a second device, numba-cuda 0.30 unloads it twice at exit, which corrupts the heap.
    """
    from numba import cuda

    kernels = compiled.__dict__.setdefault("_bridge_kernels", {})
    capability = cuda.gpus[ordinal].compute_capability
    if capability not in kernels:
        compiled.bind()
        kernels[capability] = compiled._codelibrary.get_cufunc()
    return kernels[capability]


def load_function(compiled: Any, ordinal: int) -> int:
    """The handle of a compiled kernel on a device whose context is current."""
    return driver.load_function(loaded(compiled, ordinal).handle)


def check_launch(name: str, compiled: Any, handle: int, shape: LaunchShape, ordinal: int) -> None:
    """Checks a launch against the limits of a device whose context is current, and asks for its shared memory.

    Raises:
        LaunchError: The launch is over a limit of the device.
    """
    check_limits(name, shape, driver.limits(handle, ordinal), driver.static_shared_bytes(handle))
    driver.allow_shared_bytes(handle, shape.shared_bytes)
    if compiled.cooperative:
        most = driver.most_cooperative_blocks(handle, ordinal, math.prod(shape.block), shape.shared_bytes)
        check_cooperative(name, shape.grid, most)


def waits_for_launch(compiled: Any, ordinal: int) -> bool:
    """Whether a kernel waits by itself for the end of the launch before it, on GPUs that let it begin earlier.

    The PTX instruction is ``griddepcontrol.wait``, of compute capability 9.0 and later. A kernel that has it must reach
    it before it reads or writes anything that earlier launches use.
    """
    from numba import cuda

    return "griddepcontrol.wait" in compiled._codelibrary.get_asm_str(cc=cuda.gpus[ordinal].compute_capability)


def images_of(compiled: Any, handles: Sequence[int]) -> dict[int, Image]:
    """The machine code of a compiled kernel for each device it is loaded on, by compute capability."""
    from numba import cuda

    images = {}
    for ordinal, handle in enumerate(handles):
        if handle:
            with cuda.gpus[ordinal]:
                capability = driver.compute_capability(ordinal)
                cubin = compiled._codelibrary.get_cubin(cc=cuda.gpus[ordinal].compute_capability)
                content = bytes(getattr(cubin, "code", cubin))
                images[capability] = Image(capability, driver.function_name(handle), content)
    return images


def load_kernel(name: str, compiled: Any, shape: LaunchShape) -> tuple[int, ...]:
    """The kernel's function handle on each of JAX's local devices, by ordinal.

    Raises:
        LaunchError: The launch is over a limit of a device.
    """
    from numba import cuda

    def load(ordinal: int) -> int:
        with cuda.gpus[ordinal]:
            handle = load_function(compiled, ordinal)
            check_launch(name, compiled, handle, shape, ordinal)
        return handle

    return load_everywhere(load)
