"""Reads what Warp does not promise to keep, and makes Warp ask a recorder in the place of running anything.

- `_src.context, runtime.core`: Generates the C++ of a kernel, and loads it. Public functions that do would do.
- `_codegen_lock`: No other thread generates code meanwhile. Unnecessary once Warp locks what it generates.
- `_live_kernels, _get_live_kernels`: A module holds one kernel. A public function that compiles one would do.
- `Launch.params, ModuleExec.get_kernel_hooks`: Are what machine code is given, and where it is. A public description
  of a launch would do.
- `ModuleExec.binary_path`: Is the code that an exported program holds. A public function that gives it would do.
- `_wp_scalar_type_, _shape_, _concrete_cls, _cls`: Say what a type consists of. Public functions would do.
- `_init_from_data, _init_new, _ref`: Data become a temporary of a recording. A public hook for arrays would do.
- `_resolve_launch_block_dim, _build_launch_bounds_from_tuple, pack_arg, invoke, Module.load, array.device`: Are
  replaced in the thread that records. A record of Warp's own that has the blocks that are asked for would do.
- `sys._getframe`: Tells whether capture_if or capture_while asks. The same hook would do.
- `_get_apic_capture_for_device, _apic_record_capture_if, _apic_record_capture_while`: Give the functions of capture_if
  and capture_while to the recorder. A public hook for conditions would do.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import warp as wp

from bridge.compat.library import Library, reasons

LIBRARY = Library("warp-lang", "1.19", "1.19", reasons(__doc__))


@functools.cache
def internals() -> Any:
    """The module of Warp that generates and loads code.

    Raises:
        AbiError: There is none, or it lacks a name.
    """
    context = LIBRARY.get(wp, "_src.context")
    for path in ("Module._get_live_kernels", "Module.load", "ModuleBuilder.codegen", "Launch", "runtime"):
        LIBRARY.get(context, path)
    return context


def library() -> Any:
    """Warp's library, with its C functions."""
    return LIBRARY.get(internals(), "runtime.core")


def machine_code(loaded: Any, end: str) -> tuple[bytes, str]:
    """The machine code that is loaded on a device, and the name in it of its only kernel, which ends with ``end``."""
    content = Path(LIBRARY.get(loaded, "binary_path")).read_bytes()
    symbol = re.search(rb"(?:\0|\.entry )(\w+_" + end.encode() + rb")\b", content)  # of object code, or of PTX
    if symbol is None:
        raise LIBRARY.changed(f"the machine code has no function that ends with {end}")
    return content, symbol[1].decode()


def codegen_lock() -> contextlib.AbstractContextManager[Any]:
    """Warp's lock of the generation of code, whose state Warp keeps in the functions that a kernel calls.

    Held while Warp instantiates a generic kernel, or hashes, compiles or loads a module. It also parses source:
    ``ast.parse`` of Python 3.11 fails ("AST constructor recursion depth mismatch") if the interpreter switches between
    two threads that are both in it. A thread may take it again.
    """
    lock: contextlib.AbstractContextManager[Any] = LIBRARY.get(internals(), "_codegen_lock")
    return lock


def keep_only(module: Any, *kernels: Any) -> None:
    """Makes these the kernels of a module, which Warp generates again."""
    live = LIBRARY.get(module, "_live_kernels")
    live.clear()
    live.update(kernels)
    module.mark_modified()


def kernels_of(module: Any) -> Any:
    """The kernels of a module that still exist."""
    return LIBRARY.get(module, "_get_live_kernels")()


def scalar_of(element: Any) -> Any:
    """The scalar type of a vector or matrix, or of its type; None if it is neither."""
    return getattr(element, "_wp_scalar_type_", None)


def shape_of(element: Any) -> tuple[int, ...]:
    """The extents of a vector or matrix, or of its type; one that is left open is 0."""
    return tuple(LIBRARY.get(element, "_shape_"))


def is_array(annotation: Any) -> bool:
    """Whether an annotation declares a regular array; it may be written ``warp.array[float]``."""
    return isinstance(annotation, wp.array) or getattr(annotation, "_concrete_cls", None) is wp.array


def struct_of(value: Any) -> Any:
    """The struct that a value is of; None if it is of none."""
    return getattr(value, "_cls", None)


def home_of(array: Any) -> Any:
    """The device that has the memory of an array, also while a recorder says that all are on the CPU."""
    while isinstance(getattr(array, "_ref", None), wp.array):  # a part says that it is on the CPU
        array = array._ref
    return vars(array)["device"]


class Threads(int):
    """The threads of a block on the CPU, with those that are asked for; None for Warp's default.

    Warp takes it for a number, and hands it on: ``launch_tiled`` as the last dimension of ``launch``.
    """

    asked: int | None


class _Library:
    """Stands in for Warp's library: the thread that records gets other functions, where they have an effect."""

    def __init__(self, library: Any, recorder: Any):
        vars(self).update(library=library, recorder=recorder)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.library, name)
        if threading.get_ident() != self.recorder.thread or not name.startswith("wp_"):
            return function
        return self.recorder.native(name, function)


@contextlib.contextmanager
def noting(recorder: Any) -> Iterator[None]:
    """Makes Warp ask the recorder in this thread. Other threads go on as they are."""
    context, device, core = internals(), wp.get_device("cpu"), library()
    resolve, bounds = "_resolve_launch_block_dim", "_build_launch_bounds_from_tuple"
    choose, repeat, capture = "_apic_record_capture_if", "_apic_record_capture_while", "_get_apic_capture_for_device"
    known = hasattr(core, "wp_apic_get_operation_count")
    if not (known and all(hasattr(context, each) for each in (resolve, bounds, choose, repeat, capture))):
        recorder.refuse(f"Warp {wp.__version__} launches in another way. Install a later warp-lang")

    def only_here(do: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **named: (do if threading.get_ident() == recorder.thread else otherwise)(*args, **named)

    def reads(*_: Any, **__: Any) -> Any:
        return recorder.refuse("it reads the values of an array, or writes them from Python")

    def capture_of(device: Any) -> Any:
        # Both functions ask for the capture, and then give the condition and their functions to the recorder. A launch
        # and a copy ask, too, whom a capture would lead past the recorder: so who asks decides.
        asks = sys._getframe(1).f_code in (context.capture_if.__code__, context.capture_while.__code__)
        return recorder if asks and threading.get_ident() == recorder.thread else ask(device)

    def device_of(array: Any) -> Any:
        # Operations on an array of a GPU are noted as operations on the CPU, and become launches.
        if threading.get_ident() != recorder.thread:
            return vars(array).get("device")
        recorder.arrays[id(array)] = array
        return device

    of_array: Any = wp.array
    ask = getattr(context, capture)
    instead = [
        *((context, name, recorder.launch) for name in ("invoke", "invoke_cpu_blocks")),
        (context.Module, "load", recorder.load),
        (context, resolve, recorder.threads_of),
        (of_array, "__dlpack__", reads),
        *((device, name, recorder.native(f"wp_{name}_host", None)) for name in ("memset", "memtile")),
    ]
    given_the_own = [
        (context, bounds, recorder.bounds_of),
        (context, "pack_arg", recorder.pack),
        (of_array, "_init_from_data", recorder.make_constant),
    ]
    instead += [(of, name, functools.partial(do, getattr(of, name))) for of, name, do in given_the_own]
    replaced = [
        *((of, name, only_here(do, getattr(of, name))) for of, name, do in instead if hasattr(of, name)),
        (context.runtime, "core", _Library(core, recorder)),
        (context, capture, capture_of),
        (context, choose, lambda condition, yes, no, **named: recorder.branch(condition, yes, no, False, named)),
        (context, repeat, lambda condition, body, **named: recorder.branch(condition, body, None, True, named)),
        (of_array, "__array_interface__", property(only_here(reads, of_array.__array_interface__.__get__))),
    ]
    record = core.wp_apic_create_state()
    with contextlib.ExitStack() as stack:
        stack.callback(core.wp_apic_destroy_state, record)
        stack.callback(lambda: [core.wp_free_host(address) for address in recorder.freed])
        stack.enter_context(wp.ScopedDevice(device))
        for of, name, new in replaced:
            stack.callback(setattr, of, name, getattr(of, name))
            setattr(of, name, new)
        stack.callback(delattr, of_array, "device")  # an attribute of each array, and not of the class
        of_array.device = property(device_of, lambda array, device: vars(array).update(device=device))
        core.wp_apic_begin_recording(record, 1)
        stack.callback(core.wp_apic_end_recording, record)
        yield
        if count := core.wp_apic_get_operation_count(record):
            recorder.refuse(f"Warp's own record holds {count} operations that went past this one")


def copy_of_data(initialise: Callable[..., None], array: Any, data: Any, dtype: Any, shape: Any) -> bytes:
    """Makes an array on the CPU a new one of the type and shape that ``warp.array(data)`` has; returns the data."""
    initialise(array, data, dtype, shape, "cpu", False, False)  # in NumPy's memory
    content: bytes = array._ref.tobytes()
    array._init_new(array.dtype, array.shape, None, wp.get_device("cpu"), False)
    return content
