"""Numba-CUDA kernels as JAX operations: :func:`numba_cuda_kernel`."""

from __future__ import annotations

import ctypes
import functools
import json
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp

from bridge.errors import BridgeError, CudaUnavailableError, KernelCompileError, KernelTypeError
from bridge.ffi.cuda import driver, embedded
from bridge.ffi.cuda.embedded import Image
from bridge.ffi.kernel_call import Compiled
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.ffi.target import CUDA, Entry
from bridge.languages.extras import INSTALL_CUDA, is_installed
from bridge.languages.launch_shape import LaunchShape, check_covers, check_limits, launch_shape
from bridge.languages.wrapper import wrap
from bridge.signature.outputs import check_known_shapes
from bridge.source.captured import captured_error
from bridge.source.content import function_digest, undefined_kernel
from bridge.source.imports import hoist_imports

_LANGUAGE = "numba_cuda"


def numba_cuda_kernel(
    kernel: Callable[..., None],
    outs: Any,
    *,
    grid: int | tuple[int, ...] | None = None,
    block: int | tuple[int, ...] | None = None,
    launch_dims: int | tuple[int, ...] | None = None,
    threads_per_block: int = 256,
    shared_mem: int = 0,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., Any]:
    """Makes a Numba-CUDA kernel callable from JAX: launched natively, on XLA's stream, with no Python in the call.

    The kernel is compiled and loaded when JAX traces the call. XLA may record its launches into CUDA graphs.

    Args:
        kernel: A function decorated with ``numba.cuda.jit``, called as ``kernel(input, ..., output, ...)`` with
            C-contiguous device arrays. It writes every element of its outputs. Inputs are read-only.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        grid: Blocks to launch, an int or up to three (x, y, z). Goes with ``block``.
        block: Threads of a block, an int or up to three.
        launch_dims: Threads to launch in all, instead of ``grid`` and ``block``; rounded up to whole blocks.
        threads_per_block: Size of the blocks that ``launch_dims`` is cut into; 16x16 in two dimensions for 256.
        shared_mem: Dynamic shared memory of a block in bytes; more than 48 KiB is asked for where needed.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element.
        input_output_aliases: Pairs of input and output index that share a buffer; the kernel may write to such inputs.

    Returns:
        A ``jax.jit`` function of the input arrays that returns what ``outs`` describes.

    Raises:
        ImportError: numba-cuda is not installed, or there is no NVIDIA GPU.
        ValueError: The launch arguments are incomplete or make no sense; or, when called: they exceed a limit of the
            device, or launch nothing while an output is not empty.
        KernelTypeError: ``kernel`` was not made by ``numba.cuda.jit``; also an ``AssertionError``.
        SignatureError: As for :func:`bridge.numba_kernel`.
        KernelCompileError: When called: Numba cannot compile the kernel for these types.

    Warns:
        UnwrittenOutputWarning: As for :func:`bridge.numba_kernel`.

    A launch that fails reaches the caller as a JAX runtime error with the names of the kernel and of CUDA's error. A
    kernel has no derivative of its own; attach one as for :func:`bridge.numba_kernel`.

    Example::

        @cuda.jit
        def add(x, y, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = x[i] + y[i]

        add_fn = numba_cuda_kernel(add, jax.ShapeDtypeStruct((1024,), jnp.float32), launch_dims=1024)
    """
    require_cuda()
    definition = _definition(kernel)
    shape = launch_shape(definition.name, grid, block, launch_dims, threads_per_block, shared_mem)
    return wrap(_Configured(definition, shape), outs, vmap_method, input_output_aliases)


def require_cuda() -> None:
    """Raises CudaUnavailableError, an ImportError, unless numba-cuda is installed and sees a GPU."""
    if not is_installed("numba_cuda"):  # Numba may have a numba.cuda of its own, which is another one
        raise CudaUnavailableError(f"CUDA kernels need numba-cuda, which is not installed. {INSTALL_CUDA}")
    try:
        from numba import cuda
    except ImportError as error:
        raise CudaUnavailableError(f"numba-cuda does not import ({error}). {INSTALL_CUDA}") from error
    if not cuda.is_available():
        raise CudaUnavailableError(
            "numba-cuda finds no NVIDIA GPU with a working driver on this machine. Run on a machine that has one; "
            "numba_kernel wraps kernels for the CPU."
        )


class _Definition:
    """One kernel as the user defined it: one object for each content."""

    def __init__(self, dispatcher: Any, digest: str):
        self.dispatcher = dispatcher
        self.function = dispatcher.py_func
        self.name = self.function.__name__
        self.digest = digest
        self.place = f"{self.function.__code__.co_filename}:{self.function.__code__.co_firstlineno}"

    @functools.cached_property
    def compilable(self) -> Any:
        """The user's dispatcher, or an equal one of a function without imports in its body."""
        function = hoist_imports(self.function)
        if function is self.function and self.dispatcher._can_compile:
            return self.dispatcher
        return type(self.dispatcher)(function, targetoptions=self.dispatcher.targetoptions)


_definitions: weakref.WeakValueDictionary[str, _Definition] = weakref.WeakValueDictionary()
_digests: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def _definition(kernel: Any) -> _Definition:
    from numba.cuda.dispatcher import CUDADispatcher

    if not isinstance(kernel, CUDADispatcher):
        raise KernelTypeError(
            f"numba_cuda_kernel got {kernel!r} of type {type(kernel).__name__}, expected a function decorated with "
            "numba.cuda.jit."
        )
    digest = _digests.get(kernel)
    if digest is None:
        digest = _digests[kernel] = function_digest(kernel.py_func, kernel.targetoptions)
    return _definitions.get(digest) or _definitions.setdefault(digest, _Definition(kernel, digest))


@dataclass(frozen=True)
class _Array:
    """Type of one argument of a launch."""

    dtype: str
    shape: tuple[int, ...]
    writable: bool


@dataclass(frozen=True)
class _Configured:
    """A kernel and its launch: a :class:`bridge.languages.wrapper.Kernel`."""

    definition: _Definition
    launch: LaunchShape

    target = CUDA

    @property
    def name(self) -> str:
        return str(self.definition.name)

    @property
    def function(self) -> Callable[..., Any]:
        return self.source_function

    @property
    def source_function(self) -> FunctionType:
        function: FunctionType = self.definition.function
        return function

    def code(self, inputs: Sequence[Any], outputs: Sequence[Any], writable: frozenset[int]) -> Compiled:
        """The kernel compiled, loaded and planned for these shapes and dtypes."""
        check_known_shapes([*inputs, *outputs], self.name)
        check_covers(self.name, self.launch, outputs)
        arrays = [_Array(str(a.dtype), tuple(a.shape), index in writable) for index, a in enumerate(inputs)]
        arrays += [_Array(str(spec.dtype), tuple(spec.shape), True) for spec in outputs]
        return Compiled(CUDA, self.typed_entry(arrays, len(inputs)))

    def typed_entry(self, arrays: list[_Array], input_count: int) -> Entry:
        """The entry for these argument types, compiled now if it is new."""
        call = json.dumps(
            {
                "launch": [self.launch.grid, self.launch.block, self.launch.shared_bytes],
                "inputs": input_count,
                "arrays": [[array.dtype, array.shape, array.writable] for array in arrays],
            }
        )
        description = f"{_LANGUAGE}:{self.name}:{self.definition.digest} {call}"
        return CUDA.publish(description, lambda: self._build(arrays, input_count))

    def _build(self, arrays: list[_Array], input_count: int) -> tuple[Any, ...]:
        compiled = _compile(self.definition, arrays)
        launches = []
        if not self.launch.is_empty:
            handles = _load(self.name, compiled, self.launch)
            launches.append(array_launch(self.name, handles, self.launch, [(a.dtype, a.shape) for a in arrays]))
        sizes = [(len(array.shape), jnp.dtype(array.dtype).itemsize) for array in arrays]
        plan = DevicePlan(self.name, sizes[:input_count], sizes[input_count:], launches)
        words, alive = plan.words()

        def embed() -> str:
            return embedded.write(plan, [_images(compiled, launch.handles) for launch in launches])

        return ctypes.addressof(words), (words, alive, compiled), (), embed


def array_launch(
    name: str, handles: tuple[int, ...], shape: LaunchShape, arrays: Sequence[tuple[str, tuple[int, ...]]]
) -> Launch:
    """A launch whose parameters are C-contiguous arrays.

    Args:
        name: The kernel.
        handles: Its function handle on each device.
        shape: Grid, block and shared memory.
        arrays: Dtype and shape of each array; array ``i`` is buffer ``i`` of the call.
    """
    blob: list[int] = []
    patches = []
    for index, (dtype, extents) in enumerate(arrays):
        words, address = array_words(jnp.dtype(dtype).itemsize, extents)
        patches.append(Patch(word=len(blob) + address, buffer=index))
        blob += words
    return Launch(
        name=name,
        handles=handles,
        grid=shape.grid,
        block=shape.block,
        shared_bytes=shape.shared_bytes,
        blob=tuple(blob),
        parameters=tuple(WORD_BYTES * word for word in range(len(blob))),
        patches=tuple(patches),
    )


def array_words(item_bytes: int, extents: Sequence[int]) -> tuple[list[int], int]:
    """A C-contiguous array as Numba-CUDA passes it, and the index of the word that takes the address of its data.

    Numba-CUDA expands an array into 8-byte parameters: memory info and parent (both null), number of items, bytes of an
    item, address of the data, extents, strides in bytes.
    """
    strides = [item_bytes * math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
    return [0, 0, math.prod(extents), item_bytes, 0, *extents, *strides], 4


def numba_type(name: str, dtype: str, rank: int, writable: bool) -> Any:
    """Numba-CUDA's type of a C-contiguous array.

    Raises:
        KernelCompileError: Numba-CUDA has no such dtype.
    """
    from numba.cuda import types
    from numba.cuda.np.numpy_support import from_dtype

    try:
        return types.Array(from_dtype(jnp.dtype(dtype)), rank, "C", readonly=not writable)
    except NotImplementedError as error:
        raise KernelCompileError(
            f"{name}: Numba-CUDA has no {dtype} arrays. Convert to one it has (bool, integers of 8 to 64 bits, "
            "float16, bfloat16, float32, float64, complex64, complex128) before the call."
        ) from error


def _compile(definition: _Definition, arrays: Sequence[_Array]) -> Any:
    """Numba's compiled kernel for these argument types, for the current device."""
    array_types = tuple(numba_type(definition.name, a.dtype, len(a.shape), a.writable) for a in arrays)
    listed = ", ".join(map(str, array_types))
    try:
        dispatcher = definition.compilable
        if not definition.dispatcher._can_compile:
            _check_declared(definition, array_types)
        return dispatcher.compile(array_types)
    except (BridgeError, Warning):
        raise
    except Exception as error:
        if (captured := captured_error(definition.name, definition.place, definition.function)) is not None:
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


def _check_declared(definition: _Definition, array_types: Sequence[Any]) -> None:
    """Holds a kernel with explicit signatures to their dtypes and ranks."""
    declared = list(definition.dispatcher.overloads)
    for signature in declared:
        if [(t.dtype, t.ndim) for t in signature] == [(t.dtype, t.ndim) for t in array_types]:
            return
    raise KernelCompileError(
        f"{definition.name} is declared for {'; '.join(map(str, declared))}, but was called with {array_types}. "
        "Convert the arguments, or declare this signature too."
    )


def load_function(compiled: Any, ordinal: int) -> int:
    """The handle of a compiled kernel on a device whose context is current.

    Numba is asked once for each compute capability, not for each device: what it loads belongs to no device, and
    loading it for a second one makes numba-cuda 0.30 unload it twice at exit, which corrupts the heap.
    """
    from numba import cuda

    kernels = compiled.__dict__.setdefault("_bridge_kernels", {})
    capability = cuda.gpus[ordinal].compute_capability
    if capability not in kernels:
        kernels[capability] = compiled._codelibrary.get_cufunc().handle
    return driver.load_function(kernels[capability])


def _images(compiled: Any, handles: Sequence[int]) -> dict[int, Image]:
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


def _load(name: str, compiled: Any, shape: LaunchShape) -> tuple[int, ...]:
    """The kernel's function handle on each of JAX's local devices, by ordinal; 0 where JAX has no device."""
    from numba import cuda

    ordinals = sorted(device.local_hardware_id for device in jax.local_devices(backend="cuda"))
    handles = [0] * (ordinals[-1] + 1)
    for ordinal in ordinals:
        with cuda.gpus[ordinal]:
            handles[ordinal] = load_function(compiled, ordinal)
            limits = driver.limits(handles[ordinal], ordinal)
            check_limits(name, shape, limits, driver.static_shared_bytes(handles[ordinal]))
            driver.allow_shared_bytes(handles[ordinal], shape.shared_bytes)
    return tuple(handles)


def _resolve(description: str) -> Entry:
    """The entry for a call that another process described: its kernel must have been wrapped in this one."""
    kernel, _, call = description.partition(" ")
    _, name, digest = kernel.split(":")
    definition = _definitions.get(digest)
    if definition is None:
        raise undefined_kernel("CUDA kernel", name, digest, "numba_cuda_kernel")
    about = json.loads(call)
    grid, block, shared_bytes = about["launch"]
    configured = _Configured(definition, LaunchShape(tuple(grid), tuple(block), shared_bytes))
    arrays = [_Array(dtype, tuple(shape), writable) for dtype, shape, writable in about["arrays"]]
    return configured.typed_entry(arrays, about["inputs"])


CUDA.resolve_with(_LANGUAGE, _resolve)
