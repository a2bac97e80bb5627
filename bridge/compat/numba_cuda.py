"""Holds what the bridge uses of Numba-CUDA's insides, and what it replaces there. Imports numba-cuda.

- `Dispatcher._can_compile`: whether a kernel is for the signatures that its decorator declares only. Unnecessary if the
  dispatcher told.
- `_codelibrary.llvm_strs, _entry_name, _nvvm_options, _max_registers, _lto, _linking_files, _setup_functions,
  referenced_objects`: identify the code of a kernel. Unnecessary if a compiled kernel told what it was made from.
- `_codelibrary.get_cubin`: the machine code that an exported program holds. Unnecessary if a compiled kernel had it.
- `_codelibrary.get_cufunc, _cufunc_cache, get_asm_str`: load a kernel once for each compute capability. Unnecessary if
  numba-cuda loaded kernels on every device, and unloaded each once at exit.
- `ArrayModel._fields`: an array becomes these launch parameters. Unnecessary if numba-cuda documented them.
- `_prepare_args`: the launch parameters of what a recorded function passes. Unnecessary with the same.
- `_to_core_stream`: a compiled kernel is launched without its dispatcher, on XLA's stream. Unnecessary if
  `_Kernel.launch` took the streams that dispatchers take.
- `_runtime._set_attached_context`: numba-cuda asks the driver for the context at each array unless it knows it.
  Unnecessary if `cuda.current_context` could be told.
- `Context.memalloc`: is replaced. It allocates with `cuMemAlloc`, and freeing waits for the whole device. A callable
  allocates in the order of its stream, and a recording allocates nothing. Unnecessary if each thread could have its own
  memory manager.
- `_Kernel.launch`: is replaced. A recording notes a launch; a kernel with `debug=True` is launched so that its
  exception is read after XLA's stream. Unnecessary if launches had a hook.
- `Driver.__getattr__`: is replaced. A recording refuses what is no launch, such as a copy. Unnecessary with the same.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from numba import cuda
from numba.cuda import types
from numba.cuda.cudadrv import devices
from numba.cuda.cudadrv import driver as numbas_driver
from numba.cuda.cudadrv.driver import Context, Driver
from numba.cuda.descriptor import cuda_target
from numba.cuda.dispatcher import _Kernel

from bridge.compat.library import Library, reasons

LIBRARY = Library("numba-cuda", "0.30.4", "0.30", reasons(__doc__))

_FIELDS = ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides")


def takes_new_types(dispatcher: Any) -> bool:
    """Whether a kernel is compiled for any types, and not only for the signatures that its decorator declares."""
    return bool(LIBRARY.get(dispatcher, "_can_compile"))


class Code(NamedTuple):
    """What a kernel was compiled from.

    Attributes:
        modules: Its LLVM code.
        name: The name of its function there.
        files: What it is linked with.
        setups: Functions that run when it is loaded.
        objects: Objects of this process that it refers to.
        options: What the compiler was told.
    """

    modules: Sequence[str]
    name: str
    files: Sequence[Any]
    setups: Sequence[Any]
    objects: Any
    options: dict[str, Any]


def code(compiled: Any) -> Code:
    """What a kernel was compiled from."""
    of = functools.partial(LIBRARY.get, LIBRARY.get(compiled, "_codelibrary"))
    options = {**of("_nvvm_options"), "max_registers": of("_max_registers"), "lto": of("_lto")}
    files, setups = of("_linking_files"), of("_setup_functions")
    return Code(of("llvm_strs"), of("_entry_name"), files, setups, of("referenced_objects"), options)


def assembly(compiled: Any, ordinal: int) -> str:
    """The PTX code of a kernel for a device."""
    capability = cuda.gpus[ordinal].compute_capability
    return str(LIBRARY.get(compiled, "_codelibrary.get_asm_str")(cc=capability))


def cubin(compiled: Any, capability: int) -> bytes:
    """The machine code of a kernel for a compute capability, such as 90, linked with its files."""
    code = LIBRARY.get(compiled, "_codelibrary.get_cubin")(cc=divmod(capability, 10))
    return bytes(getattr(code, "code", code))  # of cuda.core, where numba-cuda compiles by it


def loaded(compiled: Any, ordinal: int) -> Any:
    """Numba's loaded kernel for a device whose context is current.

    Numba loads the kernel once for each compute capability, not for each device. The library that it loads belongs to
    no device. If it is loaded for a second device, numba-cuda 0.30 unloads it twice at exit, which corrupts the heap.
    """
    kernels = vars(compiled).setdefault("_bridge_kernels", {})
    capability = cuda.gpus[ordinal].compute_capability
    if capability not in kernels:
        compiled.bind()
        kernels[capability] = LIBRARY.get(compiled, "_codelibrary.get_cufunc")()
    # Numba's own launches on this device find it here.
    return LIBRARY.get(compiled, "_codelibrary._cufunc_cache").setdefault(ordinal, kernels[capability])


@functools.cache
def check_layout() -> None:
    """Raises AbiError unless a kernel takes an array as :mod:`bridge.languages.numba_cuda.array_parameters` says."""
    models = LIBRARY.get(cuda_target, "target_context.data_model_manager")
    fields = LIBRARY.get(models[types.Array(types.float32, 2, "C")], "_fields")
    if fields != _FIELDS:
        raise LIBRARY.changed(f"an array has the fields {fields}")


def arguments_of(kernel: Any, arguments: Sequence[Any], stream: Any) -> list[Any]:
    """The launch parameters of a compiled kernel, as Numba prepares them; its defaults take no argument."""
    values: list[Any] = []
    for kind, value in zip(kernel.argument_types, arguments, strict=False):
        LIBRARY.get(kernel, "_prepare_args")(kind, value, stream, [], values)
    return values


def core_stream(stream: Any) -> Any:
    """A stream as :data:`launch_by_numba` takes it."""
    return LIBRARY.get(numbas_driver, "_to_core_stream")(stream)


@contextlib.contextmanager
def attached(context: Any) -> Iterator[None]:
    """Tells Numba in the block that a context is current, so that it does not ask the driver at each array."""
    attach = LIBRARY.get(devices, "_runtime._set_attached_context")
    attach(context)
    try:
        yield
    finally:
        attach(None)


class Work(Protocol):
    """What a thread does for the bridge."""

    def allocate(self, context: Any, size: int) -> Any:
        """Numba's pointer to new memory of ``size`` bytes, for a device array."""

    def launch(self, kernel: Any, arguments: Any, grid: Any, block: Any, stream: Any, shared_bytes: int) -> None:
        """Launches a compiled kernel, or notes it."""

    def call_driver(self, function: str) -> None:
        """Raises an error if Numba may not call this function of the driver now."""


_thread = threading.local()


def _work() -> Work | None:
    return getattr(_thread, "work", None)


@contextlib.contextmanager
def working(work: Work) -> Iterator[None]:
    """Makes Numba-CUDA ask ``work`` in this thread inside the block."""
    patch()
    previous, _thread.work = _work(), work
    try:
        yield
    finally:
        _thread.work = previous


launch_by_numba = _Kernel.launch
"""Numba's own launch."""


@functools.cache
def patch() -> None:
    """Makes three functions of Numba-CUDA ask the work of a thread; in threads that do none, they do as before."""
    allocate_by_numba, find_by_numba = Context.memalloc, Driver.__getattr__
    for function, wanted in (
        (allocate_by_numba, "self bytesize"),
        (launch_by_numba, "self args griddim blockdim stream sharedmem"),
        (find_by_numba, "self fname"),
    ):
        if (names := " ".join(inspect.signature(function).parameters)) != wanted:
            raise LIBRARY.changed(f"{function.__qualname__} takes {names}, not {wanted}")

    def memalloc(self: Any, bytesize: int) -> Any:
        work = _work()
        return allocate_by_numba(self, bytesize) if work is None else work.allocate(self, bytesize)

    def launch(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> None:
        if (work := _work()) is None:
            launch_by_numba(self, args, griddim, blockdim, stream, sharedmem)
        else:  # with Python's numbers in the place of NumPy's, which CUDA does not take
            work.launch(self, args, tuple(map(int, griddim)), tuple(map(int, blockdim)), stream, int(sharedmem))

    def find(self: Any, fname: str) -> Any:
        if (work := _work()) is not None and fname.startswith("cu"):
            work.call_driver(fname)
        if fname not in functions:
            functions[fname] = find_by_numba(self, fname)
            vars(self).pop(fname, None)  # where Numba would find it the next time, and ask nobody
        return functions[fname]

    own = vars(numbas_driver.driver)
    functions = {name: own.pop(name) for name in [*own] if name.startswith("cu")}
    Context.memalloc, _Kernel.launch, Driver.__getattr__ = memalloc, launch, find
