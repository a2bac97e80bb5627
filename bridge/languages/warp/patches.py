"""Makes Warp ask a recorder in one thread, in the place of running anything."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import warp as wp

from bridge.languages.warp.recorder import WarpRecorder, threads_of
from bridge.languages.warp.settings import internals


class _Library:
    """Stands in for Warp's library: the thread that records gets other functions, where they have an effect."""

    def __init__(self, library: Any, recorder: WarpRecorder):
        vars(self).update(library=library, recorder=recorder)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.library, name)
        if threading.get_ident() != self.recorder.thread or not name.startswith("wp_"):
            return function
        return self.recorder.native(name, function)


@contextlib.contextmanager
def noting(recorder: WarpRecorder) -> Iterator[None]:
    """Makes Warp ask the recorder in this thread. Other threads go on as they are."""
    context, device = internals(), wp.get_device("cpu")
    library = context.runtime.core
    resolve, bounds = "_resolve_launch_block_dim", "_build_launch_bounds_from_tuple"
    choose, repeat = "_apic_record_capture_if", "_apic_record_capture_while"
    known = hasattr(library, "wp_apic_get_operation_count")
    if not (known and all(hasattr(context, each) for each in (resolve, bounds, choose, repeat))):
        recorder.refuse(f"Warp {wp.__version__} launches in another way. Install a later warp-lang")

    def only_here(do: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **named: (do if threading.get_ident() == recorder.thread else otherwise)(*args, **named)

    def reads(*_: Any, **__: Any) -> Any:
        return recorder.refuse("it reads the values of an array, or writes them from Python")

    def capture_of(device: Any) -> Any:
        # Both functions ask for the capture, and then give the condition and their functions to the recorder.
        asks = sys._getframe(1).f_code.co_name in ("capture_if", "capture_while")
        return recorder if asks and threading.get_ident() == recorder.thread else capture(device)

    def keep(*args: Any) -> Any:
        _, _, _, value, *_ = args
        recorder.alive.append(value)
        for each in vars(value).values() if hasattr(value, "_cls") else [value]:  # the fields of a struct
            if isinstance(each, wp.array):
                recorder.meet(each)
        return pack(*args)

    def device_of(array: Any) -> Any:
        # Operations on an array of a GPU are noted as operations on the CPU, and become launches.
        return device if threading.get_ident() == recorder.thread else vars(array).get("device")

    of_array: Any = wp.array
    build = getattr(context, bounds)
    pack, capture, from_data = context.pack_arg, context._get_apic_capture_for_device, of_array._init_from_data
    replaced = [
        (context.runtime, "core", _Library(library, recorder)),
        *(
            (context, name, only_here(recorder.launch, getattr(context, name)))
            for name in ("invoke", "invoke_cpu_blocks")
            if hasattr(context, name)
        ),
        (context.Module, "load", only_here(recorder.load, context.Module.load)),
        (context, resolve, only_here(threads_of, getattr(context, resolve))),
        (context, bounds, only_here(functools.partial(recorder.bounds_of, build), build)),
        (context, "pack_arg", only_here(keep, pack)),
        (context, "_get_apic_capture_for_device", capture_of),
        (context, choose, lambda condition, yes, no, **named: recorder.branch(condition, yes, no, False, named)),
        (context, repeat, lambda condition, body, **named: recorder.branch(condition, body, None, True, named)),
        (wp.array, "_init_from_data", only_here(functools.partial(recorder.make_constant, from_data), from_data)),
        (wp.array, "__array_interface__", property(only_here(reads, of_array.__array_interface__.__get__))),
        (wp.array, "__dlpack__", only_here(reads, of_array.__dlpack__)),
        *(
            (device, name, only_here(recorder.native(f"wp_{name}_host", getattr(library, f"wp_{name}_host")), old))
            for name, old in (("memset", device.memset), ("memtile", device.memtile))
        ),
    ]
    record = library.wp_apic_create_state()
    with contextlib.ExitStack() as stack:
        stack.callback(library.wp_apic_destroy_state, record)
        stack.callback(lambda: [library.wp_free_host(address) for address in recorder.freed])
        stack.enter_context(wp.ScopedDevice(device))
        for of, name, new in replaced:
            stack.callback(setattr, of, name, getattr(of, name))
            setattr(of, name, new)
        stack.callback(delattr, wp.array, "device")  # an attribute of each array, and not of the class
        of_array.device = property(device_of, lambda array, device: vars(array).update(device=device))
        library.wp_apic_begin_recording(record, 1)
        stack.callback(library.wp_apic_end_recording, record)
        yield
        if count := library.wp_apic_get_operation_count(record):
            recorder.refuse(f"Warp's own record holds {count} operations that went past this one")
